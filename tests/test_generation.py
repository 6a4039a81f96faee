"""The fold of events into an answer and its figures."""

from __future__ import annotations

import json

import pytest
from tests.engine.talk import talking
from tests.engine.tiny import tiny

import anyorder
from anyorder import Hole
from anyorder.events import BlockFinished, Committed, Event, Finished, Opened, Started
from anyorder.generation import Fold, Generation, Slot

MASK, STOP = 9, 2


class Clock:
    """One second per reading."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def folded(*events: Event) -> Generation:
    fold = Fold(lambda ids: " ".join(map(str, ids)), (STOP,), Clock(), began=100.0)
    for event in events:
        fold.add(event)
    return fold.result(fold.figures(model_s=1.0, policy_s=0.5, other_s=0.25, cache="none", exact=True))


def committed(number: int, *decided: tuple[int, int]) -> Committed:
    slots, ids = zip(*decided, strict=True)
    return Committed(0, number, slots, ids, (0.5,) * len(slots))


ANSWER = folded(
    Started(0, ids=(5, MASK, MASK, 6, MASK, MASK), open=(1, 2, 4, 5), answer_start=4),
    committed(0, (4, 7)),
    committed(2, (1, 8), (2, STOP)),
    Opened(0, 6, 9, given=((7, 3),)),
    committed(3, (5, 8), (8, 4)),
    BlockFinished(0, 0, 4, 6, 4),
    committed(4, (6, STOP)),
    Finished(0, "stop", passes=5, positions=40),
)


def test_the_answer_ends_before_its_first_stop_token() -> None:
    assert ANSWER.ids == (7, 8)
    assert ANSWER.text == "7 8"
    assert ANSWER.finish_reason == "stop"


def test_a_stop_token_in_a_hole_ends_nothing() -> None:
    assert ANSWER.prompt_ids == (5, 8, STOP, 6)
    assert ANSWER.holes == (f"8 {STOP}",)


def test_the_figures_count_what_was_decided() -> None:
    stats = ANSWER.stats
    assert (stats.passes, stats.positions, stats.blocks) == (5, 40, 1)
    assert stats.tokens == 5  # two in the hole, three of the answer with its stop token
    assert stats.wasted == 1  # slot 8; the forced one was not decided
    assert stats.tokens_per_forward == 1.0
    assert stats.time_to_first_s == 1.0
    assert stats.time_to_last_s == 2.0
    assert stats.tokens_per_second == 2.5


def test_the_trace_holds_every_decided_slot_in_order() -> None:
    assert [(slot.slot, slot.id, slot.commit_pass) for slot in ANSWER.trace] == [
        (1, 8, 2), (2, STOP, 2), (4, 7, 0), (5, 8, 3), (6, STOP, 4), (8, 4, 3),
    ]  # fmt: skip
    assert ANSWER.trace[0] == Slot(1, 8, "8", 2, 0.5)


def test_everything_is_json() -> None:
    plain = json.loads(json.dumps(ANSWER.as_dict()))
    assert plain["trace"][0] == {"slot": 1, "id": 8, "text": "8", "pass": 2, "confidence": 0.5}
    assert plain["stats"]["tokens_per_forward"] == 1.0
    assert plain["ids"] == [7, 8]


def test_a_canvas_that_was_full_from_the_start_has_figures() -> None:
    answer = folded(Started(0, ids=(5, 6), open=(), answer_start=1), Finished(0, "length", 0, 0))
    assert answer.ids == (6,)
    assert answer.stats.tokens_per_forward == 0.0
    assert answer.stats.time_to_first_s == answer.stats.time_to_last_s


def test_adjacent_holes_are_one_run() -> None:
    answer = folded(
        Started(0, ids=(MASK, MASK, 5, MASK), open=(0, 1, 3), answer_start=4),
        committed(0, (0, 7), (1, 8), (3, 6)),
        Finished(0, "length", 1, 4),
    )
    assert answer.holes == ("7 8", "6")


def test_an_unfinished_request_has_no_result() -> None:
    fold = Fold(lambda ids: "", (), Clock(), 0.0)
    with pytest.raises(AssertionError, match="not finished"):
        fold.figures()


@pytest.mark.parametrize("family", ["llada", "sdar", "fast_dllm_v2", "llama"])
def test_events_as_json_tell_the_whole_story(family: str) -> None:
    """A client that knows nothing but the events ends with the same canvas."""
    model = talking(family)
    stream = anyorder.stream(model, "8 9 10", max_new_tokens=9, forced={4: 11}, stop_ids=())
    canvas: list[int] = []
    for event in stream:
        told = json.loads(json.dumps(event.as_dict()))
        assert told["type"] == type(event).__name__.lower()
        assert told["request"] == 0
        match told["type"]:
            case "started":
                canvas = told["ids"]
            case "opened":
                canvas += [-1] * (told["end"] - told["start"])
                for slot, token in told["given"]:
                    canvas[slot] = token
            case "committed":
                for slot, token in zip(told["slots"], told["ids"], strict=True):
                    canvas[slot] = token
            case _:
                pass
    (answer,) = stream.generations()
    assert canvas == [8, 9, 10, *answer.ids]
    assert answer.text == model.tokenizer.decode(answer.ids)  # type: ignore[union-attr]


def test_holes_are_decoded() -> None:
    answer = anyorder.infill(talking("llada"), ["8", Hole(2), "9"], banned_ids=tuple(range(7)))
    ids = answer.prompt_ids[1:3]
    assert answer.holes == (f"{ids[0]} {ids[1]}",)
    assert answer.ids == ()
    assert answer.prompt_text == f"8 {ids[0]} {ids[1]} 9"


def test_times_add_up() -> None:
    stats = anyorder.generate(tiny("llada"), [5], max_new_tokens=6).stats
    assert 0 < stats.time_to_first_s <= stats.time_to_last_s
    assert 0 < stats.model_s + stats.policy_s + stats.other_s <= stats.time_to_last_s
