"""Early stops, growth and the windows of each decoder, on oracles whose next move is known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests import oracles
from tests.engine import helpers
from tests.engine.helpers import Factory

from anyorder.canvas import Canvas, Hole
from anyorder.decoders.base import DecoderBase
from anyorder.events import BlockFinished, Committed, Event, Finished, Opened, Started

WORD, STOP = 0, 1
SURE_STOP_AT_3 = oracles.independent([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.01, 0.99], [0.75, 0.25], [0.95, 0.05]])
"""Six slots; the likeliest tokens are four words but for a stop token at slot 3, which is the surest of all."""


def one(joint: oracles.Joint, factory: Factory, policy: str, *, offset: int = 1, **kwargs: Any) -> list[Event]:
    _, events, _ = helpers.run(
        joint, factory, [helpers.chooser(joint, policy, temperature=0.0, **kwargs)], offset=offset
    )
    return events


def commits(events: list[Event]) -> list[tuple[int, ...]]:
    return [event.slots for event in events if isinstance(event, Committed)]


def test_a_stop_token_ends_the_answer_as_soon_as_everything_before_it_is_decided() -> None:
    joint = SURE_STOP_AT_3
    events = one(joint, helpers.full(joint, offset=1, stop_ids=(STOP,)), "low_confidence")
    assert commits(events) == [(4,), (1,), (2,), (3,)]  # slot 3 of the answer first, then what is left of it
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.passes) == ("stop", 4)


def test_without_stop_ids_the_token_is_one_like_any_other() -> None:
    joint = SURE_STOP_AT_3
    events = one(joint, helpers.full(joint, offset=1), "low_confidence")
    assert commits(events) == [(4,), (6,), (1,), (2,), (5,), (3,)]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "length"


def test_slots_behind_a_stop_token_of_the_same_pass_are_wasted_not_undone() -> None:
    joint = SURE_STOP_AT_3
    events = one(joint, helpers.full(joint, offset=1, stop_ids=(STOP,)), "threshold", knobs={"threshold": 0.9})
    assert commits(events) == [(1, 4, 6), (2,), (3,)]


def test_a_block_decoder_stops_inside_a_block() -> None:
    joint = SURE_STOP_AT_3
    events = one(joint, helpers.block(joint, offset=2, block_length=8, stop_ids=(STOP,)), "low_confidence", offset=2)
    assert commits(events) == [(5,), (2,), (3,), (4,)]
    assert not [event for event in events if isinstance(event, BlockFinished)]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.passes) == ("stop", 4)


def test_a_block_decoder_may_finish_the_block_and_write_it() -> None:
    """As SDAR's published sampler does."""
    joint = SURE_STOP_AT_3
    events = one(
        joint,
        helpers.block(joint, offset=2, block_length=8, stop_ids=(STOP,), finish_block=True, write_last=True),
        "low_confidence",
        offset=2,
    )
    assert len(commits(events)) == 6
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.passes) == ("stop", 7)


def test_a_stop_token_in_the_prompt_is_text() -> None:
    joint = oracles.independent([[0.9, 0.1]] * 3)
    for factory in (helpers.full(joint, offset=2, stop_ids=(STOP,)), helpers.causal(joint, offset=2)):
        _, events, _ = helpers.run(
            joint, factory, [helpers.chooser(joint, "random", temperature=0.0)], offset=2, prompt=[STOP, STOP],
            shift=True,
        )  # fmt: skip
        assert sum(len(slots) for slots in commits(events)) == 3


def test_a_growing_canvas_opens_one_block_at_a_time() -> None:
    joint = oracles.independent([[0.9, 0.1]] * 5)

    def growing(canvas: Any, chooser: Any) -> DecoderBase:
        canvas.grow(2)
        return helpers.FullDecoder(canvas, chooser, end=6, block_length=2)

    events = one(joint, growing, "low_confidence")
    opened = [(e.start, e.end) for e in events if isinstance(e, Opened)]
    assert opened == [(3, 5), (5, 6)]
    finished = [(e.block, e.start, e.end, e.passes) for e in events if isinstance(e, BlockFinished)]
    assert finished == [(0, 1, 3, 2), (1, 3, 5, 4), (2, 5, 6, 5)]
    assert commits(events) == [(1,), (2,), (3,), (4,), (5,)]


def test_a_stop_keeps_a_growing_canvas_short() -> None:
    joint = oracles.independent([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.9, 0.1]])

    def growing(canvas: Any, chooser: Any) -> DecoderBase:
        canvas.grow(2)
        return helpers.FullDecoder(canvas, chooser, end=5, block_length=2, stop_ids=(STOP,))

    events = one(joint, growing, "low_confidence")
    assert not [event for event in events if isinstance(event, Opened)]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"


def test_a_hole_that_is_left_does_not_let_the_canvas_grow_behind_a_stop_token() -> None:
    """The schedule's passes go to the first block; the hole is filled in further ones of the same block."""
    joint = oracles.independent([[0.6, 0.4], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.9, 0.1]])

    def growing(canvas: Any, chooser: Any) -> DecoderBase:
        canvas.grow(2)
        return helpers.FullDecoder(canvas, chooser, end=7, block_length=2, stop_ids=(STOP,))

    # columns: a given token, the hole, a given token, then the answer with a stop token at its second slot
    _, events, _ = helpers.run(
        joint, growing, [helpers.chooser(joint, "low_confidence", temperature=0.0)], offset=1, prompt=[0, Hole(1), 0]
    )
    assert commits(events) == [(3,), (4,), (1,)]
    assert not [event for event in events if isinstance(event, Opened)]
    assert isinstance(events[-1], Finished)
    assert (events[-1].reason, events[-1].passes) == ("stop", 3)


def test_a_time_grid_counts_the_slots_of_the_block_not_of_the_sub_block() -> None:
    """Counting the sub-block's alone leaves most passes idle and then commits whole sub-blocks at once."""
    joint = oracles.independent([[0.9, 0.1]] * 8)
    factory = helpers.block(joint, offset=8, block_length=8, sub_block_length=2, steps=8)
    assert [len(slots) for slots in commits(one(joint, factory, "entropy", offset=8))] == [1] * 6 + [2]


def test_guidance_moves_away_from_the_unprompted_canvas() -> None:
    """LLaDA: u + (w + 1) (c - u) of the conditional c and the unconditional u."""
    joint = oracles.independent([[0.9, 0.1]])
    canvas = Canvas.from_prompt([0], mask_id=joint.mask_id)
    canvas.grow(1)
    decoder = helpers.FullDecoder(canvas, helpers.chooser(joint, "random", temperature=0.0), end=2, cfg_scale=0.5)
    decoder.plan()
    conditional, unconditional = torch.tensor([[1.0, 2.0, 0.0]]), torch.tensor([[3.0, 1.0, 0.0]])
    decision = decoder.decide([conditional, unconditional])
    guided = torch.tensor([3.0 + 1.5 * (1.0 - 3.0), 1.0 + 1.5 * (2.0 - 1.0)])
    assert decision[:, 0].tolist() == pytest.approx([1, float(guided.softmax(-1)[1]), 1])


@pytest.mark.parametrize(("steps", "shares"), [(1, [5]), (2, [3, 2]), (3, [2, 2, 1]), (5, [1, 1, 1, 1, 1])])
def test_uneven_steps_give_the_first_passes_more(steps: int, shares: list[int]) -> None:
    joint = oracles.independent([[0.9, 0.1]] * 5)
    events = one(joint, helpers.full(joint, offset=1, steps=steps), "low_confidence")
    assert [len(slots) for slots in commits(events)] == shares


def test_equal_confidences_are_decided_from_the_left() -> None:
    joint = oracles.independent([[0.9, 0.1]] * 4)
    assert commits(one(joint, helpers.full(joint, offset=1), "low_confidence")) == [(1,), (2,), (3,), (4,)]


def test_a_stream_starts_with_the_canvas() -> None:
    joint = oracles.independent([[0.9, 0.1]] * 2)
    started = one(joint, helpers.full(joint, offset=1), "random")[0]
    assert started == Started(0, ids=(helpers.PROMPT_TOKEN, joint.mask_id, joint.mask_id), open=(1, 2), answer_start=1)
    assert started.as_dict()["type"] == "started"
