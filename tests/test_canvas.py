"""Who wrote which slot, and when."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyorder.canvas import Canvas, Hole, count_holes
from anyorder.errors import ParameterError
from anyorder.events import Committed, Opened

MASK = 9


def canvas(*parts: int | Hole, grow: int = 0, forced: dict[int, int] | None = None) -> Canvas:
    made = Canvas.from_prompt(parts, mask_id=MASK, forced=forced)
    if grow:
        made.grow(grow)
    return made


def test_a_prompt_is_given_but_for_its_holes() -> None:
    made = canvas(5, Hole(2), MASK, 6)
    assert made.ids.tolist() == [5, MASK, MASK, MASK, 6]
    assert made.open.tolist() == [False, True, True, False, False]  # the mask id that the caller wrote is text
    assert made.given.tolist() == [True, False, False, True, True]
    assert made.answer_start == len(made) == 5


def test_growing_opens_slots_and_takes_over_what_was_forced() -> None:
    made = canvas(5, forced={1: 7, 3: 8})
    assert made.grow(2) == Opened(0, 1, 3, given=((2, 7),))
    assert made.grow(2) == Opened(0, 3, 5, given=((4, 8),))
    assert made.ids.tolist() == [5, MASK, 7, MASK, 8]
    assert made.open_slots().tolist() == [1, 3]
    assert made.given.tolist() == [True, False, True, False, True]


def test_a_commit_decides_open_slots() -> None:
    made = canvas(5, grow=3)
    event = made.commit(torch.tensor([1, 3]), torch.tensor([2, 4]), torch.tensor([0.5, 0.25]), 6)
    assert event == Committed(0, 6, slots=(1, 3), ids=(2, 4), confidence=(0.5, 0.25))
    assert made.ids.tolist() == [5, 2, MASK, 4]
    assert made.commit_pass.tolist() == [-1, 6, -1, 6]
    assert made.confidence.tolist() == [0, 0.5, 0, 0.25]
    assert made.given.tolist() == [True, False, False, False]


@pytest.mark.parametrize("slot", [0, 1])
def test_given_and_decided_slots_are_never_committed(slot: int) -> None:
    made = canvas(5, grow=2)
    made.commit(torch.tensor([1]), torch.tensor([2]), torch.tensor([0.5]), 0)
    with pytest.raises(AssertionError, match="not open"):
        made.commit(torch.tensor([slot]), torch.tensor([3]), torch.tensor([0.5]), 1)


def test_open_slots_and_filled_ranges() -> None:
    made = canvas(5, Hole(1), 6, grow=2)
    assert made.open_slots().tolist() == [1, 3, 4]
    assert made.open_slots(2, 4).tolist() == [3]
    assert made.is_filled(2, 3)
    assert not made.is_filled(0, 2)
    assert made.is_filled(1, 1)


def test_only_a_committed_token_of_the_answer_is_a_stop_token() -> None:
    made = canvas(3, Hole(1), grow=4, forced={0: 3})
    stops = torch.tensor([3, 4])
    assert made.first_stop(stops) is None  # given, forced, and nothing decided
    made.commit(torch.tensor([1]), torch.tensor([3]), torch.tensor([1.0]), 0)
    assert made.first_stop(stops) is None  # in the prompt
    made.commit(torch.tensor([5]), torch.tensor([4]), torch.tensor([1.0]), 1)
    assert made.first_stop(stops) == 5
    made.commit(torch.tensor([3]), torch.tensor([3]), torch.tensor([1.0]), 2)
    assert made.first_stop(stops) == 3


@given(parts=st.lists(st.integers(0, MASK) | st.builds(Hole, st.integers(1, 5)), min_size=1, max_size=9))
def test_lengths_add_up(parts: list[int | Hole]) -> None:
    made = canvas(*parts)
    assert int(made.open.sum()) == count_holes(parts)
    assert len(made) == count_holes(parts) + sum(isinstance(part, int) for part in parts)


@pytest.mark.parametrize("length", [0, -1, 2.5, "2", True, None])
def test_a_hole_has_a_whole_length(length: int) -> None:
    with pytest.raises(ParameterError, match=r"a Hole needs at least one token, got .*; give the number of tokens"):
        Hole(length)
