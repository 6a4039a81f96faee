"""The canvas of an answer as text, decided or not, and how much of it is decided."""

from __future__ import annotations

from collections.abc import Sequence

from anyorder.channels.marked import plain
from anyorder.server.streams.answer import Answer

OPEN = "░"


def snapshot(answer: Answer) -> str:
    """The answer as it stands, a stand-in for every slot still open before the last decided one.

    Until the answer is finished it may change anywhere behind what `Answer.text` holds; then it is `Answer.text`.
    """
    if answer.finish_reason:
        return answer.text
    slots = _slots(answer)
    open_slots, ids = answer.fold.open, answer.fold.ids
    while slots and slots[-1] in open_slots:
        slots = slots[:-1]
    text, run = "", list[int]()
    for slot in slots:
        if slot in open_slots:
            text, run = text + answer.decode(run) + OPEN, []
        else:
            run.append(ids[slot])
    return _until(text + answer.decode(run), answer.stops)


def progress(answer: Answer, wanted: int) -> float:
    """Part of the answer's slots that are decided, in [0, 1]; 1 only when it is finished.

    Args:
        wanted: slots of the longest answer; a stop token makes it shorter, and the fraction jumps up.
    """
    if answer.finish_reason:
        return 1.0
    fold = answer.fold
    start = fold.answer_start
    if answer.hole:
        decided, end = sum(slot not in fold.open for slot in fold.holes), len(fold.holes)
    else:
        end = min(fold.answer_end() - start + 1, wanted) if fold.answer_end() < len(fold.ids) else wanted
        decided = sum(start <= slot < start + end for slot in fold.commits)
    return min(decided / end, 0.999) if end else 0.0


def _slots(answer: Answer) -> range | list[int]:
    fold = answer.fold
    return fold.holes if answer.hole else range(fold.answer_start, fold.answer_end())


def _until(text: str, stops: Sequence[str]) -> str:
    """The text before the first of the stop strings in it."""
    return text[: min((place for stop in stops if (place := plain(text).find(stop)) >= 0), default=len(text))]
