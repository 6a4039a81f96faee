"""Draft-and-edit on a scripted model: what is replaced, what never is, and when a block is finished."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.decoders.scripted import MASK, STOP, Script, chooser, drive, revisions
from tests.engine.tiny import tiny

import anyorder
from anyorder.canvas import Canvas, Hole
from anyorder.decoders.edit import Editing, EditingDecoder
from anyorder.errors import ParameterError
from anyorder.events import BlockFinished, Committed, Event, Remasked
from anyorder.generation import Fold
from anyorder.policies import revise
from anyorder.server.streams.answer import Answer


def run(
    script: Script, prompt: list[int | Hole], length: int, *, edit_threshold: float = 0.5, **edit: Any
) -> tuple[list[int], list[Event]]:
    """The finished canvas and all events."""
    canvas = Canvas.from_prompt(prompt, mask_id=MASK)
    decoder = EditingDecoder(
        canvas,
        chooser(),
        editing=Editing(threshold=edit_threshold, **edit),
        end=len(canvas) + length,
        block_length=4,
        stop_ids=(STOP,),
        fuse_write=True,
    )
    events, _ = drive(decoder, script)
    return canvas.ids.tolist(), events


def passes_of(events: list[Event]) -> int:
    return events[-1].passes  # type: ignore[attr-defined]


def test_only_other_readings_above_the_threshold_are_taken() -> None:
    confidence = torch.tensor([0.9, 0.5, 0.51, 0.9])
    proposed, current = torch.tensor([1, 2, 3, 4]), torch.tensor([1, 9, 9, 9])
    assert revise.edit(confidence, proposed, current, 0.5).tolist() == [False, False, True, True]


def test_a_committed_token_is_replaced_when_its_neighbour_is_known() -> None:
    """All slots say 1; once the first is there, the second reads 2. The prompt's 7s would read otherwise, too."""

    def script(fed: list[int]) -> list[tuple[int, float]]:
        return [(1, 0.9), (1, 0.9), (1, 0.9), (2 if fed[2] == 1 else 1, 0.9)]

    ids, events = run(script, [7, 7], 2)
    assert ids == [7, 7, 1, 2]
    assert revisions(events) == [(1, (3,), (2,))]
    assert passes_of(events) == 3  # the draft, the correction, and the pass that finds nothing


def test_open_slots_and_corrections_share_a_pass() -> None:
    def script(fed: list[int]) -> list[tuple[int, float]]:
        sure = 0.9 if fed[0] != MASK else 0.2
        return [(1 if fed[0] == MASK else 2, 0.9), (3, sure), (3, sure), (3, sure)]

    ids, events = run(script, [Hole(1)], 3)
    assert ids == [2, 3, 3, 3]
    first, second = [e for e in events if isinstance(e, Committed)]
    assert (first.slots, second.slots) == ((0,), (1, 2, 3))
    assert revisions(events) == [(1, (0,), (2,))]


def test_what_is_not_sure_enough_stays() -> None:
    def script(fed: list[int]) -> list[tuple[int, float]]:
        return [(5 if MASK in fed else 6, 0.6)] * 4

    assert run(script, [Hole(1)], 3)[0] == [6, 6, 6, 6]
    assert run(script, [Hole(1)], 3, edit_threshold=0.6)[0] == [5, 5, 5, 5]


@pytest.mark.parametrize(("limit", "passes"), [(0, 1), (1, 2), (5, 6)])
def test_edits_end_after_their_passes(limit: int, passes: int) -> None:
    """A model that always reads another token than the one that stands there."""

    def script(fed: list[int]) -> list[tuple[int, float]]:
        return [((token + 1) % 8, 0.9) for token in fed]

    _, events = run(script, [7], 3, max_post_passes=limit, cycle_guard=False)
    assert passes_of(events) == passes
    assert len(revisions(events)) == limit


def test_going_in_circles_is_noticed() -> None:
    def script(fed: list[int]) -> list[tuple[int, float]]:
        return [(1 if token == 2 else 2, 0.9) for token in fed]

    _, events = run(script, [7], 3, max_post_passes=40)
    assert [ids for _, _, ids in revisions(events)] == [(1, 1, 1), (2, 2, 2)]
    assert passes_of(events) == 3
    _, events = run(script, [7], 3, max_post_passes=40, cycle_guard=False)
    assert passes_of(events) == 41


def test_a_stop_token_counts_when_its_block_is_settled() -> None:
    """The draft stops at once; the correction takes the stop token back, and the answer goes on."""

    def script(fed: list[int]) -> list[tuple[int, float]]:
        return [(STOP if MASK in fed[:4] else 1, 0.9)] * 4 + [(STOP, 0.9)] * 4

    ids, events = run(script, [7, 7], 6)
    assert ids == [7, 7, 1, 1, STOP, STOP, STOP, STOP]
    assert events[-1].as_dict()["reason"] == "stop"
    finished = [e for e in events if isinstance(e, BlockFinished)]
    assert [(e.start, e.end) for e in finished] == [(0, 4), (4, 8)]


def test_a_finished_block_is_not_touched_again() -> None:
    def script(fed: list[int]) -> list[tuple[int, float]]:
        return [(1 if len(fed) == 4 else 5, 0.9)] * len(fed)

    ids, events = run(script, [7, 7], 6)
    assert ids == [7, 7, 1, 1, 5, 5, 5, 5]
    assert not revisions(events)


def test_forced_tokens_stay() -> None:
    model = tiny("llada2_moe")
    answer = anyorder.generate(
        model, [5, 6], max_new_tokens=12, forced={1: 4, 9: 4}, edit_threshold=0.0, threshold=0.05, stop_ids=()
    )
    assert answer.ids[1] == answer.ids[9] == 4
    assert answer.stats.revised > 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_block_cache_is_exact_under_edits(seed: int, temperature: float) -> None:
    model = tiny("llada2_moe")
    params: dict[str, Any] = {"edit_threshold": 0.02, "threshold": 0.06, "edit_passes": 5, "stop_ids": ()}
    prompt = torch.randint(0, 20, (11,), generator=torch.Generator().manual_seed(seed)).tolist()
    runs = [
        anyorder.generate(model, prompt, max_new_tokens=20, temperature=temperature, seed=seed, cache=cache, **params)
        for cache in ("block", "none")
    ]
    assert runs[0].ids == runs[1].ids
    assert runs[0].stats.passes == runs[1].stats.passes
    assert runs[0].stats.revised == runs[1].stats.revised > 0


def test_streamed_text_is_settled_text() -> None:
    answer = Answer(decode=lambda ids: "".join(chr(96 + token) for token in ids), stop_ids=(STOP,))
    _, events = run(lambda fed: [(1, 0.9), (1, 0.9), (1, 0.9), (2 if fed[2] == 1 else 1, 0.9)], [7, 7], 2)
    texts = [(type(event).__name__, answer.add(event).text) for event in events]
    assert [text for text in texts if text[1]] == [("BlockFinished", "ab")]
    assert answer.revised == 1


def test_a_slot_that_was_taken_back_is_open_again() -> None:
    canvas = Canvas.from_prompt([7, Hole(2)], mask_id=MASK)
    fold = Fold(lambda ids: "", (STOP,), lambda: 0.0, 0.0, ids=[7, MASK, MASK], open={1, 2}, answer_start=3)
    slots, ids, chance = torch.tensor([1, 2]), torch.tensor([3, 4]), torch.tensor([0.5, 0.5])
    fold.add(canvas.commit(slots, ids, chance, 0))
    event = canvas.remask(slots[:1], 1)
    fold.add(event)
    assert event == Remasked(0, 1, (1,))
    assert canvas.ids.tolist() == [7, MASK, 4]
    assert canvas.open_slots().tolist() == sorted(fold.open) == [1]
    assert sorted(fold.commits) == [2]
    assert fold.revised == 1


@pytest.mark.parametrize(
    ("family", "params", "part"),
    [
        ("sdar", {}, "needs a model that was trained to correct its own text"),
        ("llada", {}, "needs a model that was trained to correct its own text"),
        ("llada2_moe", {"sub_block_length": 4}, "edits a whole block, which sub-blocks cut"),
    ],
)
def test_edits_are_refused_where_they_make_no_sense(family: str, params: dict[str, Any], part: str) -> None:
    with pytest.raises(ParameterError, match=part):
        anyorder.generate(tiny(family), [5, 6], max_new_tokens=8, edit_threshold=0.5, **params)
