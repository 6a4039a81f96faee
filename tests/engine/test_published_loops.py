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
from anyorder.models.loaded import LoadedModel

NONE: tuple[int, ...] = ()


def prompt_of(seed: int, length: int) -> list[int]:
    return torch.randint(0, MASK, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


@torch.inference_mode()
def rows(model: LoadedModel, ids: list[int], sees: Tensor) -> Tensor:
    """[T, V] logits, the mask token's lowered."""
    found = logits(model.network, torch.tensor(ids), sees)
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


def test_nemotron_fills_no_holes() -> None:
    with pytest.raises(ParameterError, match=r"Nemotron.* cannot fill holes"):
        anyorder.generate(tiny("nemotron_labs_diffusion"), [5, Hole(2), 6], max_new_tokens=4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nemotron_in_a_batch_and_alone(temperature: float) -> None:
    model = tiny("nemotron_labs_diffusion")
    prompts: list[Any] = [prompt_of(seed, size) for seed, size in enumerate((3, 17, 8))]
    params: dict[str, Any] = {"max_new_tokens": 21, "threshold": 0.06, "temperature": temperature}
    together = anyorder.generate_batch(model, prompts, **params)
    assert [answer.ids for answer in together] == [anyorder.generate(model, p, **params).ids for p in prompts]
