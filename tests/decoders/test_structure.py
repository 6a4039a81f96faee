"""Insert and delete in a canvas: events, caches, what never moves, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.tiny import VOCABULARY, tiny
from tests.models.test_moe import LLADA22
from tests.models.tiny_models import write_checkpoint

import anyorder
from anyorder import Hole
from anyorder.decoders.structure import StructureDecoder
from anyorder.errors import ModelError, ParameterError
from anyorder.events import BlockFinished, Committed, Remasked, Revised
from anyorder.models.loaded import LoadedModel

DELETE, INSERT = 22, 23
EDIT: dict[str, Any] = {"edit_threshold": 0.0, "threshold": 0.05, "edit_passes": 4, "stop_ids": ()}


def model() -> LoadedModel:
    return replace(tiny("llada2_moe"), edit_ids=(DELETE, INSERT))


def prompt_of(seed: int, length: int) -> list[int]:
    return torch.randint(0, 20, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.mark.parametrize("seed", range(8))
def test_events_tell_the_whole_story(seed: int) -> None:
    """Folding the events gives the canvas of the answer; nothing in front of the block or behind its end changes."""
    prompt = prompt_of(seed, 5 + seed)
    stream = anyorder.stream(model(), prompt, max_new_tokens=19, **EDIT)
    ids: dict[int, int] = {}
    floor, kinds = len(prompt), set[type]()
    for event in stream:
        kinds.add(type(event))
        if isinstance(event, Committed):
            assert not set(event.slots) & set(ids)
        if isinstance(event, Revised | Remasked):
            assert set(event.slots) <= set(ids)
        if isinstance(event, Committed | Revised):
            assert min(event.slots) >= floor
            assert event.provisional
            ids |= dict(zip(event.slots, event.ids, strict=True))
        if isinstance(event, Remasked):
            for slot in event.slots:
                del ids[slot]
        if isinstance(event, BlockFinished):
            assert all(slot in ids for slot in range(floor, event.end))
            floor = event.end
    answer = stream.generation(0)
    assert isinstance(stream.engine.sequences[0].decoder, StructureDecoder)
    assert [ids[slot] for slot in sorted(ids)] == list(answer.ids)
    assert not {DELETE, INSERT, model().mask_token_id} & set(answer.ids)
    assert {Committed, Revised} <= kinds


def test_masks_come_back() -> None:
    """Some block of some answer was shortened."""
    streams = [list(anyorder.stream(model(), prompt_of(s, 6), max_new_tokens=24, **EDIT)) for s in range(8)]
    assert any(isinstance(event, Remasked) for stream in streams for event in stream)


@pytest.mark.parametrize("seed", range(6))
def test_the_block_cache_is_exact(seed: int) -> None:
    runs = [
        anyorder.generate(model(), prompt_of(seed, 9), max_new_tokens=20, cache=cache, **EDIT)
        for cache in ("block", "none")
    ]
    assert runs[0].ids == runs[1].ids
    assert runs[0].stats.passes == runs[1].stats.passes


def test_control_tokens_are_never_text_without_edits() -> None:
    for seed in range(4):
        answer = anyorder.generate(model(), prompt_of(seed, 6), max_new_tokens=24, threshold=0.05, stop_ids=())
        assert not {DELETE, INSERT} & set(answer.ids)


@pytest.mark.parametrize(
    ("params", "part"),
    [
        ({"temperature": 1.0}, "`temperature` does not go with inserting and deleting"),
        ({"forced": {1: 4}}, "`forced` does not go with inserting and deleting"),
        ({"top_logprobs": 2}, "`top_logprobs` does not go with inserting and deleting"),
        ({"policy": "random", "threshold": None}, "a schedule of its own, got policy 'random'"),
    ],
)
def test_what_is_not_defined_is_refused(params: dict[str, Any], part: str) -> None:
    with pytest.raises(ParameterError, match=part):
        anyorder.generate(model(), [5, 6], max_new_tokens=8, **{**EDIT, **params})


def test_holes_are_refused() -> None:
    with pytest.raises(ParameterError, match="a hole cannot grow or shrink"):
        anyorder.generate(model(), [5, Hole(2), 6], max_new_tokens=8, **EDIT)


def test_the_ids_come_from_the_config(tmp_path: Path) -> None:
    raw = {**LLADA22, "delete_token_id": 37, "split_token_id": 38}
    folder = write_checkpoint(tmp_path / "both", raw)
    assert anyorder.load(folder).edit_ids == (37, 38)
    assert anyorder.load(write_checkpoint(tmp_path / "none", LLADA22)).edit_ids is None
    for wrong in ({"delete_token_id": 37}, {"delete_token_id": 37, "split_token_id": VOCABULARY * 10}):
        with pytest.raises(ModelError, match="must both be ids below 40"):
            anyorder.load(write_checkpoint(tmp_path / "wrong", {**LLADA22, **wrong}))
