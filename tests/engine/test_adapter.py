"""Decoding with an adapter: blocks are denoised with it behind text that the base itself has read."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.engine.tiny import MASK, tiny
from torch import Tensor

from anyorder.api import EventStream, generate
from anyorder.canvas import Hole
from anyorder.models.adapter import Adapter
from anyorder.models.attention import attend_alone
from anyorder.models.loaded import LoadedModel
from anyorder.params import DecodeParams
from anyorder.training import objectives
from anyorder.training.batch import Batch
from anyorder.training.trainee import Trainee
from anyorder.window import Window

BLOCK = 4
PROMPT: list[int | Hole] = [5, 6, 7, 8, 9, 10]


def adapted() -> LoadedModel:
    base = tiny("llama")
    adapter = Adapter(base.config, rank=2, alpha=4, mask_token_id=MASK)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return replace(base, adapter=adapter.double().requires_grad_(False), block_length=BLOCK)


def converted(shift: bool) -> LoadedModel:
    """A network that was trained in whole to denoise behind its own causal text."""
    base = tiny("llama")
    spec = replace(base.spec, blocks_both_ways=True, shift=shift, policy="threshold")
    return replace(base, spec=spec, block_length=BLOCK)


MODELS = {
    "an adapter": adapted,
    "converted in whole": lambda: converted(shift=False),
    "in whole, shifted": lambda: converted(shift=True),
}


def by_hand(model: LoadedModel, ids: Tensor, window: Window) -> Tensor:
    """The rows of a window from one dense forward over everything visible."""
    columns = torch.arange(window.visible)
    noisy = columns >= (window.visible if window.adapted is None else window.start + window.adapted)
    mask = (columns[None] <= columns[:, None]) | noisy[:, None]
    hidden = model.network(ids, columns, attend_alone(mask), None, model.adapter and model.adapter.on(noisy))
    return model.network.head(hidden)[window.rows + window.start]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("params", [{}, {"cache": "none"}])
@pytest.mark.parametrize("length", [6, 8])
def test_every_pass_reads_clean_text_without_it_and_the_block_with_it(
    kind: str, params: dict[str, Any], length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODELS[kind]()
    settings: dict[str, Any] = {
        "mode": "block",
        "policy": "threshold",
        "threshold": 0.3,
        "max_new_tokens": 9,
        "stop_ids": (),
        **params,
    }
    stream = EventStream(model, [PROMPT[:length] + [11] * (length - 6)], DecodeParams.of(**settings))
    forward, seen = stream.runner.forward, list[Window]()

    def checked(windows: Sequence[Window], storages: Any) -> list[Tensor]:
        decoder = stream.engine.sequences[0].decoder
        rows = forward(windows, storages)
        for window, got in zip(windows, rows, strict=True):
            ids = torch.cat([decoder.canvas.ids[: window.start], window.ids])
            torch.testing.assert_close(got, by_hand(model, ids, window), rtol=1e-9, atol=1e-9)
            seen.append(window)
        return rows

    monkeypatch.setattr(stream.runner, "forward", checked)
    for _ in stream:
        pass
    assert any(w.adapted is not None for w in seen)
    assert any(w.adapted for w in seen), "finished text is read in the pass that begins the next block"


@pytest.mark.parametrize("kind", MODELS)
def test_keeping_blocks_changes_nothing(kind: str) -> None:
    params: dict[str, Any] = {
        "mode": "block",
        "policy": "threshold",
        "threshold": 0.3,
        "max_new_tokens": 16,
        "stop_ids": (),
    }
    kept, anew = (generate(MODELS[kind](), PROMPT, cache=cache, **params) for cache in ("block", "none"))
    assert kept.ids == anew.ids
    assert kept.stats.passes == anew.stats.passes


def test_the_causal_mode_is_that_of_the_base() -> None:
    with_one, without = (generate(m, PROMPT, mode="causal", max_new_tokens=20) for m in (adapted(), tiny("llama")))
    assert with_one.ids == without.ids


def test_the_first_slot_of_a_block_is_the_bases_own() -> None:
    """Whatever the threshold leaves for later passes: the row before the block says what the causal mode would."""
    model = adapted()
    prompt: list[int | Hole] = [*PROMPT, 11, 12]  # two whole blocks
    answer = generate(model, prompt, mode="block", policy="threshold", threshold=0.99, max_new_tokens=8, stop_ids=())
    for first in (0, BLOCK):
        before: list[int | Hole] = [*prompt, *answer.ids[:first]]
        own = generate(tiny("llama"), before, mode="causal", max_new_tokens=1, stop_ids=())
        assert answer.ids[first] == own.ids[0]
        assert answer.trace[first].commit_pass == min(s.commit_pass for s in answer.trace[first : first + BLOCK])


def test_a_decoder_asks_what_training_taught() -> None:
    """The rows of a denoising pass are those of the objective with the same masks."""
    model = adapted()
    ids = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12]])
    uniform = torch.tensor([[1.0] * BLOCK + [1.0, 0.0, 0.0, 1.0]])  # the second block's middle is masked
    p = objectives.complementary(
        Batch.of(ids), torch.full((2,), 0.5), uniform, mask_token_id=MASK, block_length=BLOCK,
        context="causal", frozen_context=True,
    )  # fmt: skip
    assert model.adapter is not None
    trainee = Trainee(copy.deepcopy(model.network), model.adapter)  # which freezes what it is given
    taught = trainee(p.ids, p.positions, p.attend, p.rows, p.context)
    asked = (p.rows >= 8) & (p.rows < 16) & (p.rows % 8 >= BLOCK)  # of the first view's second block
    window = Window(
        ids=torch.tensor([5, 6, 7, 8, 9, MASK, MASK, 12]), start=0, visible=8, rows=p.rows[asked] - 8,
        attention="causal", adapted=BLOCK, stores=False,
    )  # fmt: skip
    stream = EventStream(model, [PROMPT], DecodeParams.of(mode="block", max_new_tokens=2))
    got = stream.runner.forward([window], [None])[0]
    assert len(got) == 2
    torch.testing.assert_close(got, model.network.head(taught[asked]), rtol=1e-9, atol=1e-9)
