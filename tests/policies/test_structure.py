"""Insert and delete: single passes by hand, whole blocks against a slow reading of the published description."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.policies.structure import Cell, Progress, Reading, Rules, refine

MASK, DELETE, INSERT = 9, 10, 11
RULES = Rules(mask_id=MASK, delete_id=DELETE, insert_id=INSERT, threshold=0.5, edit_threshold=0.3, steps=4)


def reading(token: int, confidence: float = 0.9, second: int = 0, plain: int | None = None) -> Reading:
    own = token if plain is None else plain
    return Reading(Cell(token, confidence), Cell(second, 0.05), Cell(own, confidence if own == token else 0.01))


def tokens(cells: list[Cell]) -> list[int]:
    return [cell.token for cell in cells]


def once(before: list[int], read: list[int], **rules: Any) -> tuple[list[Cell], Progress]:
    cells = [Cell(token, original=token == MASK) for token in before]
    changed = Rules(**{**{name: getattr(RULES, name) for name in RULES.__slots__}, **rules})
    return refine(cells, [reading(token, plain=7) for token in read], Progress(before.count(MASK)), changed)


@pytest.mark.parametrize(
    ("before", "read", "after"),
    [
        ([1, 2, 3, 4], [1, DELETE, 3, 4], [1, 3, 4, MASK]),
        ([1, 2, 3, 4], [1, INSERT, 3, 4], [1, MASK, 2, 3]),
        ([1, 2, 3, 4], [DELETE, DELETE, INSERT, 4], [MASK, 3, 4, MASK]),
        ([1, 2, 3, 4], [INSERT, INSERT, INSERT, INSERT], [MASK, 1, MASK, 2]),
        ([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]),
        ([1, MASK, 3, 4], [1, 5, DELETE, 4], [1, 5, 4, MASK]),
    ],
)
def test_control_tokens_are_carried_out(before: list[int], read: list[int], after: list[int]) -> None:
    assert tokens(once(before, read)[0]) == after


def test_a_block_is_settled_when_a_pass_over_it_changes_nothing() -> None:
    assert once([1, 2, 3], [1, 2, 3])[1].settled
    assert not once([1, 2, 3], [1, 2, 4])[1].settled
    assert not once([1, 2, MASK], [1, 2, 4])[1].settled


def test_the_last_pass_fills_what_is_masked_and_takes_no_control_token() -> None:
    cells, progress = once([1, MASK, 3, 4], [1, INSERT, DELETE, 4], max_passes=1)
    assert tokens(cells) == [1, 7, 7, 4]
    assert progress.settled


def test_masks_that_came_in_are_filled_on_top_of_the_schedule() -> None:
    cells = [Cell(1), Cell(MASK, original=True), Cell(MASK), Cell(MASK, original=True)]
    readings = [reading(1), reading(2, 0.2), reading(3, 0.4), reading(4, 0.3)]
    after, _ = refine(cells, readings, Progress(masks=4), RULES)
    assert tokens(after) == [1, MASK, 3, 4]  # one by the schedule of 4 masks in 4 passes, one for the new mask


def test_a_state_that_was_there_is_left() -> None:
    cells = [Cell(1), Cell(2)]
    progress = Progress(0, seen=frozenset({(3, 4)}))
    after, progress = refine(cells, [reading(3, 0.9), reading(4, 0.6, second=5)], progress, RULES)
    assert tokens(after) == [3, 5]
    assert progress.seen == {(3, 4), (3, 5)}


def test_a_mask_of_the_beginning_does_not_stay_for_ever() -> None:
    """The first slot goes away and a mask comes in before the second, while the others change so that no state comes
    twice: the published loop ends after a thousand passes."""
    rules = Rules(
        mask_id=MASK, delete_id=DELETE, insert_id=INSERT, threshold=0.5, edit_threshold=0, steps=8, max_post_passes=3
    )
    cells, progress, passes = [Cell(MASK, original=True) for _ in range(8)], Progress(8), 0
    while not progress.settled:
        digits = [passes // 8**place % 8 for place in range(6)]
        read = [DELETE, INSERT, *digits] if passes else [INSERT, *[1] * 7]
        cells, progress = refine(cells, [reading(token, second=token, plain=7) for token in read], progress, rules)
        passes += 1
    assert passes == 8 + 1 + 3


def slow(cells: list[Cell], readings: list[Reading], p: Progress, r: Rules) -> tuple[list[int], list[bool], bool]:
    """The description step by step, over positions and flags."""
    length = len(cells)
    is_mask = [cell.token == r.mask_id for cell in cells]
    old = [is_mask[i] and cells[i].original for i in range(length)]
    new_count = sum(is_mask) - sum(old)
    if p.step >= r.steps:
        readings = [Reading(*[each.plain] * 3) if old[i] else each for i, each in enumerate(readings)]
    post = p.post_passes + 1 if not any(old) else 0
    fill = [False] * length
    if p.step >= r.steps:
        fill = list(is_mask)
    else:
        need = p.masks // r.steps + int(p.step < p.masks % r.steps) + new_count
        high = [is_mask[i] and readings[i].best.confidence > r.threshold for i in range(length)]
        order = sorted(range(length), key=lambda i: -readings[i].best.confidence)
        ranked = [i for i in order if is_mask[i]]
        fill = high if sum(high) >= need else [i in ranked[:need] for i in range(length)]
    final = post >= r.max_post_passes if r.max_post_passes > 0 else all(fill[i] for i in range(length) if old[i])
    final = final or p.step >= r.max_passes - 1
    block: list[int] = []
    for i in range(length):
        edits = not is_mask[i] and readings[i].best.token != cells[i].token
        edits = edits and readings[i].best.confidence > r.edit_threshold
        token = readings[i].best.token
        if final and token in (r.delete_id, r.insert_id):
            token = readings[i].plain.token
        writes = (fill[i] or (final and is_mask[i])) or edits
        block.append(token if writes else cells[i].token)
    for _ in range(0 if final else 5):
        changed = [i for i in range(length) if block[i] != cells[i].token]
        if tuple(block) not in p.seen or not changed:
            break
        place = changed[0]
        for i in changed:
            place = i if readings[i].best.confidence < readings[place].best.confidence else place
        first, second = readings[place].best.token, readings[place].second.token
        block[place] = second if block[place] == first else first
    result: list[int] = []
    flags: list[bool] = []
    for i, token in enumerate(block):
        if token == r.insert_id:
            result += [r.mask_id, cells[i].token]
            flags += [False, cells[i].original]
        elif token != r.delete_id:
            result.append(token)
            flags.append(cells[i].original)
    while len(result) < length:
        result.append(r.mask_id)
        flags.append(False)
    return result[:length], flags[:length], final


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), length=st.integers(1, 8), post=st.integers(0, 3), steps=st.integers(1, 8))
def test_blocks_are_refined_as_described_and_come_to_an_end(seed: int, length: int, post: int, steps: int) -> None:
    """A model that reads anything at random; every pass is that of the slow reading."""
    draw = random.Random(seed)
    rules = Rules(
        mask_id=MASK, delete_id=DELETE, insert_id=INSERT, threshold=0.5, edit_threshold=0.4, steps=steps,
        max_post_passes=post, max_passes=30,
    )  # fmt: skip
    cells = [Cell(MASK, original=True) if draw.random() < 0.7 else Cell(draw.randrange(9)) for _ in range(length)]
    progress = Progress(sum(cell.token == MASK for cell in cells))
    passes = 0
    while not progress.settled:
        readings = [
            reading(draw.choice([*range(9), DELETE, INSERT]), draw.random(), draw.randrange(9), draw.randrange(9))
            for _ in cells
        ]
        expected = slow(cells, readings, progress, rules)
        before = tokens(cells)
        cells, progress = refine(cells, readings, progress, rules)
        stable = MASK not in before and tokens(cells) == before
        assert (tokens(cells), [cell.original for cell in cells]) == expected[:2]
        assert progress.settled == (expected[2] or stable)
        passes += 1
    assert passes <= min(rules.max_passes, steps + 1 + post)
    assert not {MASK, DELETE, INSERT} & set(tokens(cells))
