"""Insert and delete: a model that corrects its text may also say that a token is too many, or that one is missing.

Two control tokens stand for that. They are read once and never become text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyorder.policies.schedule import even

ESCAPES = 5
"""Slots that are read differently before a block is let go through a state once more."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One slot of a block."""

    token: int
    confidence: float = 0.0
    original: bool = False
    """It was masked when the block was entered, or came from such a slot."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the model reads in one slot: its best token, the second, and the best that is no control token."""

    best: Cell
    second: Cell
    plain: Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a block is refined."""

    mask_id: int
    delete_id: int
    """This slot goes away, what follows moves up, and a mask comes in at the end."""
    insert_id: int
    """A mask comes in before this slot, what follows moves back, and what stands at the end is lost."""
    threshold: float
    edit_threshold: float
    steps: int
    """Passes in which the masks of the beginning are to be gone."""
    max_post_passes: int = 16
    """Passes from then on."""
    max_passes: int = 1000


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a block is."""

    masks: int  # when it was entered
    step: int = 0
    post_passes: int = 0
    seen: frozenset[tuple[int, ...]] = frozenset()
    settled: bool = False


def refine(
    cells: Sequence[Cell], readings: Sequence[Reading], progress: Progress, rules: Rules
) -> tuple[list[Cell], Progress]:
    """One pass over the slots of a block that the model may write.

    Args:
        cells: as they were fed.
        readings: one per cell.
    Returns:
        as many cells, and the progress; a settled block has neither masks nor control tokens.
    Source: LLaDA2.2's block decoder, and FluxServe's description of it, whose two deviations are ours, too: no slot is
        made a mask by being read as one, and going in circles is escaped by the least sure slot, not a random one.
        A third is ours alone: behind the schedule a mask of the beginning is no longer read as a control token. It
        could stay one for ever, a mask inserted before it and another slot deleted in every pass, until `max_passes`.
        And without later passes a block whose masks were pushed out of it ends, too. So a block takes at most `steps` +
        1 + `max_post_passes` passes.
    """
    masked = {at for at, cell in enumerate(cells) if cell.token == rules.mask_id}
    original = {at for at in masked if cells[at].original}
    if progress.step >= rules.steps:
        readings = [_plainly(reading) if at in original else reading for at, reading in enumerate(readings)]
    post_passes = 0 if original else progress.post_passes + 1
    filled = _filled(readings, masked, len(masked) - len(original), progress, rules)
    spent = post_passes >= rules.max_post_passes if rules.max_post_passes else original <= filled
    last = spent or progress.step >= rules.max_passes - 1
    filled = masked if last else filled
    edited = {at for at in range(len(cells)) if at not in masked and _reads_otherwise(cells[at], readings[at], rules)}
    written = [
        _written(cell, reading, rules, plain=last) if at in filled | edited else cell
        for at, (cell, reading) in enumerate(zip(cells, readings, strict=True))
    ]
    if not last:
        written = _escape(cells, written, readings, progress.seen)
    moved = _restructured(cells, written, rules)
    stable = not masked and [cell.token for cell in moved] == [cell.token for cell in cells]
    return moved, replace(
        progress,
        step=progress.step + 1,
        post_passes=post_passes,
        seen=progress.seen | {_state(written)},
        settled=last or stable,
    )


def _filled(readings: Sequence[Reading], masked: set[int], inserted: int, progress: Progress, rules: Rules) -> set[int]:
    """Masks that are committed: the sure ones, or as many of the surest as the schedule wants."""
    if progress.step >= rules.steps:
        return masked
    wanted = even(progress.masks, rules.steps)[progress.step] + inserted
    sure = {at for at in masked if readings[at].best.confidence > rules.threshold}
    if len(sure) >= wanted:
        return sure
    surest = sorted(masked, key=lambda at: (-readings[at].best.confidence, at))
    return set(surest[:wanted])


def _plainly(reading: Reading) -> Reading:
    return Reading(reading.plain, reading.plain, reading.plain)


def _reads_otherwise(cell: Cell, reading: Reading, rules: Rules) -> bool:
    return reading.best.token != cell.token and reading.best.confidence > rules.edit_threshold


def _written(cell: Cell, reading: Reading, rules: Rules, *, plain: bool) -> Cell:
    control = reading.best.token in (rules.delete_id, rules.insert_id)
    return replace(reading.plain if plain and control else reading.best, original=cell.original)


def _escape(
    cells: Sequence[Cell], written: list[Cell], readings: Sequence[Reading], seen: frozenset[tuple[int, ...]]
) -> list[Cell]:
    """Read the least sure of the changed slots differently while the block is in a state that it was in."""
    for _ in range(ESCAPES):
        changed = [at for at, cell in enumerate(written) if cell.token != cells[at].token]
        if _state(written) not in seen or not changed:
            break
        at = min(changed, key=lambda at: (readings[at].best.confidence, at))
        best, second = readings[at].best, readings[at].second
        other = second if written[at].token == best.token else best
        written = [*written[:at], replace(other, original=cells[at].original), *written[at + 1 :]]
    return written


def _restructured(cells: Sequence[Cell], written: Sequence[Cell], rules: Rules) -> list[Cell]:
    """Carry the control tokens out; the number of cells stays."""
    mask, result = Cell(rules.mask_id), list[Cell]()
    for before, after in zip(cells, written, strict=True):
        if after.token == rules.insert_id:
            result += [mask, before]
        elif after.token != rules.delete_id:
            result.append(after)
    return (result + [mask] * len(cells))[: len(cells)]


def _state(cells: Sequence[Cell]) -> tuple[int, ...]:
    return tuple(cell.token for cell in cells)
