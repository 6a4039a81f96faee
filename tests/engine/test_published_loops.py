"""Samplers without recordings: our decoders against their published loops, written down plainly and without a cache.

The loops run on the same random float64 network, every pass over the whole text with an attention mask spelled out.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.engine.tiny import MASK, tiny
from tests.models.tiny_models import logits
from torch import Tensor

import anyorder
from anyorder import Hole
from anyorder.errors import ParameterError
from anyorder.events import BlockFinished
from anyorder.models.loaded import LoadedModel

NONE: tuple[int, ...] = ()


def prompt_of(seed: int, length: int) -> list[int]:
    return torch.randint(0, MASK, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


@torch.inference_mode()
def rows(
    model: LoadedModel, ids: list[int], sees: Tensor, positions: Tensor | None = None, *, masked: bool = False
) -> Tensor:
    """[T, V] logits, the mask token's lowered unless it may be said (`masked`), as any token in causal mode."""
    found = logits(model.network, torch.tensor(ids), sees, positions)
    if not masked:
        found[:, MASK] = -torch.inf
    return found


def surest(found: Tensor, masked: list[int], threshold: float) -> dict[int, int]:
    """Of the masked positions those at least `threshold` sure, and the surest: LLaDA's loop with a threshold."""
    chances, best = found.softmax(-1).max(-1)
    ranked = sorted(masked, key=lambda at: -float(chances[at]))
    return {at: int(best[at]) for at in ranked if at == ranked[0] or chances[at] >= threshold}


# ---------------------------------------------------------------- Stable-DiffCoder


def stable_diffcoder(
    model: LoadedModel, prompt: list[int], length: int, block: int, tau: float
) -> tuple[list[int], int]:
    """Its `generate_block`: blocks counted from column 0, block-causal attention."""
    ids, passes = prompt + [MASK] * length, 0
    for start in range(len(prompt) // block * block, len(ids), block):
        end = min(start + block, len(ids))
        while masked := [at for at in range(start, end) if ids[at] == MASK]:
            column = torch.arange(start + block) // block
            fed = (ids + [MASK] * block)[: start + block]
            for at, token in surest(rows(model, fed, column <= column[:, None]), masked, tau).items():
                ids[at] = token
            passes += 1
    return ids[len(prompt) :], passes


@pytest.mark.parametrize("cache", ["block", "none"])
@pytest.mark.parametrize(("size", "length", "tau"), [(3, 9, 0.95), (4, 8, 0.06), (9, 13, 0.06), (1, 3, 0.0)])
def test_stable_diffcoder(size: int, length: int, tau: float, cache: str) -> None:
    model = tiny("stable_diffcoder")
    for seed in range(4):
        prompt = prompt_of(seed, size)
        expected, passes = stable_diffcoder(model, prompt, length, 4, tau)
        answer = anyorder.generate(model, prompt, max_new_tokens=length, threshold=tau, cache=cache, stop_ids=NONE)
        assert list(answer.ids) == expected
        assert answer.stats.passes == passes


# ---------------------------------------------------------------- Efficient-DLM


@pytest.mark.parametrize("cache", ["block", "none"])
@pytest.mark.parametrize(("size", "length", "tau"), [(3, 9, 0.9), (8, 16, 0.06), (9, 13, 0.06), (1, 3, 0.0)])
def test_efficient_dlm(size: int, length: int, tau: float, cache: str) -> None:
    """LLaDA's loop with a threshold, in blocks that see themselves both ways behind clean ones; any block length."""
    model = tiny("efficient_dlm")
    for seed, block in enumerate([8, 8, 4, 5]):
        prompt = prompt_of(seed, size)
        expected, passes = stable_diffcoder(model, prompt, length, block, tau)
        answer = anyorder.generate(
            model, prompt, max_new_tokens=length, block_length=block, threshold=tau, cache=cache, stop_ids=NONE
        )
        assert list(answer.ids) == expected
        assert answer.stats.passes == passes


# ---------------------------------------------------------------- Nemotron-Labs-Diffusion


def nemotron(model: LoadedModel, prompt: list[int], length: int, block: int, tau: float) -> tuple[list[int], int]:
    """Its `generate` with causal context: the causal mode gives each block its first token."""
    ids, passes = list(prompt), 0
    while len(ids) < len(prompt) + length:
        causal = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
        seed = int(rows(model, ids, causal)[-1].argmax())
        start, passes = len(ids), passes + 1
        ids = [*ids, seed, *[MASK] * (min(block, len(prompt) + length - start) - 1)]
        sees = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
        sees[start:] = True
        while masked := [at for at in range(start, len(ids)) if ids[at] == MASK]:
            for at, token in surest(rows(model, ids, sees), masked, tau).items():
                ids[at] = token
            passes += 1
    return ids[len(prompt) :], passes


@pytest.mark.parametrize("cache", ["block", "none"])
@pytest.mark.parametrize(("size", "length", "tau"), [(5, 16, 0.9), (1, 8, 0.06), (11, 13, 0.06), (8, 24, 0.0)])
def test_nemotron(size: int, length: int, tau: float, cache: str) -> None:
    model = tiny("nemotron_labs_diffusion")
    for seed in range(4):
        prompt = prompt_of(seed, size)
        expected, passes = nemotron(model, prompt, length, 8, tau)
        answer = anyorder.generate(model, prompt, max_new_tokens=length, threshold=tau, cache=cache, stop_ids=NONE)
        assert list(answer.ids) == expected
        assert answer.stats.passes == passes


def test_nemotrons_causal_mode_is_a_token_per_pass() -> None:
    model, prompt = tiny("nemotron_labs_diffusion"), prompt_of(1, 6)
    expected, _ = nemotron(model, prompt, 7, 1, 1.0)
    assert list(anyorder.generate(model, prompt, max_new_tokens=7, mode="causal", stop_ids=NONE).ids) == expected


def linear_spec(model: LoadedModel, prompt: list[int], length: int, block: int) -> tuple[list[int], int]:
    """Its `linear_spec_generate`: a block of masks behind the last token is the draft, a causal pass verifies it."""
    causal = torch.ones(len(prompt), len(prompt), dtype=torch.bool).tril()
    ids, passes = [*prompt, int(rows(model, prompt, causal, masked=True)[-1].argmax())], 1
    while len(ids) < len(prompt) + length:
        room = min(block - 1, len(prompt) + length - len(ids) - 1)
        drafted: list[int] = []
        if room:
            fed = ids + [MASK] * room
            sees = torch.ones(len(fed), len(fed), dtype=torch.bool).tril()
            sees[len(ids) - 1 :] = True
            drafted = rows(model, fed, sees)[len(ids) :].argmax(-1).tolist()
        fed = ids + drafted
        causal = torch.ones(len(fed), len(fed), dtype=torch.bool).tril()
        verified = rows(model, fed, causal, masked=True)[len(ids) - 1 :].argmax(-1)
        agreed = 0
        while agreed < len(drafted) and drafted[agreed] == int(verified[agreed]):
            agreed += 1
        ids += verified[: agreed + 1].tolist()
        passes += 1 + bool(room)
    return ids[len(prompt) :], passes


@pytest.mark.parametrize(("size", "length", "block"), [(5, 16, 8), (1, 7, 4), (11, 2, 8), (3, 1, 8), (9, 20, 2)])
def test_nemotrons_self_speculation(size: int, length: int, block: int) -> None:
    model = tiny("nemotron_labs_diffusion")
    for seed in range(4):
        prompt = prompt_of(seed, size)
        expected, passes = linear_spec(model, prompt, length, block)
        params: dict[str, Any] = {"max_new_tokens": length, "mode": "causal", "stop_ids": NONE}
        answer = anyorder.generate(model, prompt, draft="block", draft_length=block - 1, **params)
        assert list(answer.ids) == expected
        assert answer.stats.passes == passes
        assert answer.ids == anyorder.generate(model, prompt, **params).ids


@pytest.mark.parametrize("seed", range(5))
def test_self_speculation_samples_the_causal_text(seed: int) -> None:
    model, prompt = tiny("nemotron_labs_diffusion"), prompt_of(seed, 6)
    params: dict[str, Any] = {"max_new_tokens": 20, "mode": "causal", "temperature": 1.0, "seed": seed}
    assert (
        anyorder.generate(model, prompt, draft="block", **params).ids == anyorder.generate(model, prompt, **params).ids
    )


def test_only_models_of_both_modes_draft_blocks() -> None:
    with pytest.raises(ParameterError, match=r"draft 'block' needs a model that denoises behind causal text, Llama"):
        anyorder.generate(tiny("llama"), [5, 6], max_new_tokens=4, mode="causal", draft="block")


# ---------------------------------------------------------------- WeDLM


def wedlm(model: LoadedModel, prompt: list[int], length: int, block: int, tau: float) -> tuple[list[int], int]:
    """Its `generate_wedlm`: known tokens first, then the masks, every token at its own position, causal attention."""
    ids, passes = list(prompt), 0
    for begun in range(0, length, block):
        ids += [MASK] * min(block, length - begun)
        while masked := [at for at, token in enumerate(ids) if token == MASK]:
            order = [at for at in range(len(ids)) if at not in masked] + masked
            sees = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
            found = rows(model, [ids[at] for at in order], sees, torch.tensor(order))
            back = found[torch.tensor(order).argsort()]
            for at, token in surest(back, masked, tau or 2.0).items():
                ids[at] = token
            passes += 1
    return ids[len(prompt) :], passes


@pytest.mark.parametrize("cache", ["block", "none"])
@pytest.mark.parametrize(("size", "length", "tau"), [(5, 16, 0.0), (1, 8, 0.06), (11, 13, 0.055), (8, 24, 0.06)])
def test_wedlm(size: int, length: int, tau: float, cache: str) -> None:
    model = tiny("wedlm")
    for seed in range(4):
        prompt = prompt_of(seed, size)
        prompt = [token for token in prompt if token != MASK]
        expected, passes = wedlm(model, prompt, length, 8, tau)
        params: dict[str, Any] = {"threshold": tau} if tau else {"policy": "low_confidence"}
        answer = anyorder.generate(model, prompt, max_new_tokens=length, cache=cache, stop_ids=NONE, **params)
        assert list(answer.ids) == expected
        assert answer.stats.passes == passes


def test_wedlm_feeds_a_known_prefix_once() -> None:
    """With the cache a pass begins at the first mask of the pass before."""
    model, prompt = tiny("wedlm"), prompt_of(3, 9)
    kept, computed = (
        anyorder.generate(model, prompt, max_new_tokens=16, cache=cache, policy="sequential", stop_ids=NONE).stats
        for cache in ("block", "none")
    )
    assert kept.passes == computed.passes == 16
    assert kept.positions == (9 + 8) + sum(range(2, 9)) + (1 + 8) + sum(range(2, 9))
    assert computed.positions == 8 * (9 + 8) + 8 * (9 + 16)


# ---------------------------------------------------------------- LLaDA2.1


@torch.inference_mode()
def draft_and_edit(
    model: LoadedModel, prompt: list[int], length: int, block: int, tau: float, edit: float, earlier: int, stop: int
) -> tuple[list[int], int]:
    """Its `generate` with a guard against circles, and behind every block the passes of multi-block editing."""
    end, passes, first_block = len(prompt) + length, 0, len(prompt) // block * block
    ids = list(prompt)

    def read(start: int, together: int) -> set[int]:
        """One pass over the block at `start`; what it corrected from column `together` on, which all see each other."""
        column = torch.arange(start + block) // block
        sees = (column <= column[:, None]) | (torch.arange(start + block) >= together)[:, None]
        found = rows(model, (ids + [MASK] * block)[: start + block], sees).softmax(-1).max(-1)
        chance, best = found.values.tolist(), found.indices.tolist()
        masked = [at for at in range(start, min(start + block, end)) if ids[at] == MASK]
        sure = {at for at in masked if chance[at] > tau} or set(sorted(masked, key=lambda at: -chance[at])[:1])
        own = [at for at in range(max(together, len(prompt)), min(start + block, end)) if ids[at] != MASK]
        changed = {at for at in own if best[at] != ids[at] and chance[at] > edit}
        for at in sure | changed:
            ids[at] = best[at]
        return changed if not masked else {-1}

    for start in range(first_block, end, block):
        ids += [MASK] * (min(start + block, end) - len(ids))
        seen, changed = set[tuple[int, ...]](), {-1}
        while changed and tuple(ids) not in seen and len(seen) < 16:
            if MASK not in ids:
                seen.add(tuple(ids))
            changed, passes = read(start, start), passes + 1
        together = max(start - earlier * block, first_block)
        seen, changed = set[tuple[int, ...]](), {-1} if together < start else set[int]()
        while changed and tuple(ids) not in seen and len(seen) < 5:
            seen.add(tuple(ids))
            changed, passes = read(start, together), passes + 1
        if stop in ids[len(prompt) :]:
            return ids[len(prompt) : ids.index(stop, len(prompt))], passes
    return ids[len(prompt) :], passes


@pytest.mark.parametrize("cache", ["block", "none"])
@pytest.mark.parametrize("earlier", [0, 1, 2, 9])
@pytest.mark.parametrize(
    ("size", "length", "tau", "edit"), [(3, 17, 0.06, 0.05), (4, 12, 0.0, 0.0), (10, 9, 0.9, 0.06)]
)
def test_draft_and_edit(size: int, length: int, tau: float, edit: float, earlier: int, cache: str) -> None:
    model = tiny("llada2_moe")
    params = anyorder.DecodeParams(threshold=tau, edit_threshold=edit, edit_blocks=earlier)
    for seed in range(4):
        prompt, stop = prompt_of(seed, size), 7 if seed % 2 else -1
        expected, passes = draft_and_edit(model, prompt, length, 4, tau, edit, earlier, stop)
        stop_ids = (stop,) if stop >= 0 else NONE
        answer = anyorder.generate(
            model, prompt, params, max_new_tokens=length, block_length=4, cache=cache, stop_ids=stop_ids
        )
        assert list(answer.ids) == expected
        assert answer.stats.passes == passes


# ---------------------------------------------------------------- both


@pytest.mark.parametrize("family", ["nemotron_labs_diffusion", "wedlm"])
def test_holes_are_refused(family: str) -> None:
    with pytest.raises(ParameterError, match=r"writes behind what is given and cannot fill holes"):
        anyorder.generate(tiny(family), [5, Hole(2), 6], max_new_tokens=4)


@pytest.mark.parametrize("family", ["nemotron_labs_diffusion", "wedlm"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_batch_is_its_requests_alone(family: str, temperature: float) -> None:
    model = tiny(family)
    prompts: list[Any] = [prompt_of(seed, size) for seed, size in enumerate((3, 17, 8))]
    params: dict[str, Any] = {"max_new_tokens": 21, "threshold": 0.06, "temperature": temperature}
    together = anyorder.generate_batch(model, prompts, **params)
    assert [answer.ids for answer in together] == [anyorder.generate(model, p, **params).ids for p in prompts]


@pytest.mark.parametrize("family", ["nemotron_labs_diffusion", "wedlm"])
def test_blocks_behind_a_prompt_are_counted_from_its_end(family: str) -> None:
    events = anyorder.stream(
        tiny(family), prompt_of(1, 21), max_new_tokens=14, block_length=4, mode="block", policy="threshold", stop_ids=()
    )
    finished = [(event.block, event.start, event.end) for event in events if isinstance(event, BlockFinished)]
    assert finished == [(0, 21, 25), (1, 25, 29), (2, 29, 33), (3, 33, 35)]
