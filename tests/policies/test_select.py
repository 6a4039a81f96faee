"""Every policy function against the same rule written as a slow loop, and the promises they all share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anyorder.policies import select
from anyorder.policies.catalog import POLICIES
from anyorder.policies.published import FUNCTIONS, Knobs

Row = list[float]
Flags = list[bool]
GRID = 16  # scores are multiples of 1/16: sums and comparisons are exact, and ties are frequent


def order(score: Row, open: Flags) -> list[int]:
    """Open slots, best first, equal ones by slot."""
    return sorted((slot for slot, yes in enumerate(open) if yes), key=lambda slot: (-score[slot], slot))


def flags(length: int, chosen: Sequence[int]) -> Flags:
    return [slot in set(chosen) for slot in range(length)]


# ---------------------------------------------------------------- the rules as loops


def loop_quota(score: Row, open: Flags, count: int) -> Flags:
    return flags(len(score), order(score, open)[:count])


def loop_threshold(score: Row, open: Flags, tau: float, strict: bool = False) -> Flags:
    ranked = order(score, open)
    return flags(len(score), [s for s in ranked if score[s] > tau or (score[s] == tau and not strict)] + ranked[:1])


def loop_factor(score: Row, open: Flags, f: float) -> Flags:
    taken: list[int] = []
    for rank, slot in enumerate(order(score, open), 1):
        if rank > 1 and score[slot] < 1 - f / (rank + 1):
            break
        taken.append(slot)
    return flags(len(score), taken)


def loop_entropy_bound(entropy: Row, open: Flags, gamma: float) -> Flags:
    taken: list[int] = []
    for slot in order([-h for h in entropy], open):
        wanted = [entropy[s] for s in (*taken, slot)]
        if sum(wanted) - max(wanted) > gamma:
            break
        taken.append(slot)
    return flags(len(entropy), taken)


def loop_entropy_bounded(entropy: Row, open: Flags, gamma: float) -> Flags:
    taken: list[int] = []
    for slot in order([-h for h in entropy], open):
        if taken and sum(entropy[s] for s in (*taken, slot)) >= gamma:
            break
        taken.append(slot)
        if sum(entropy[s] for s in taken) >= gamma:
            break
    return flags(len(entropy), taken)


def loop_dynamic(score: Row, open: Flags, tau: float, count: int) -> Flags:
    sure = [slot for slot in order(score, open) if score[slot] > tau]
    return flags(len(score), sure) if len(sure) >= count else loop_quota(score, open, count)


def loop_threshold_within(score: Row, open: Flags, tau: float, count: int) -> Flags:
    best = order(score, open)[: max(count, 1)]
    return flags(len(score), [slot for slot in best if score[slot] >= tau] + best[:1])


def loop_leftmost(open: Flags, count: int) -> Flags:
    return flags(len(open), [slot for slot, yes in enumerate(open) if yes][:count])


def loop_bernoulli(uniform: Row, open: Flags, probability: float) -> Flags:
    return [yes and u < probability for u, yes in zip(uniform, open, strict=True)]


@dataclass(frozen=True)
class Case:
    """A policy function with its knob, and its twin."""

    fast: Callable[[Tensor, Tensor, float], Tensor]
    slow: Callable[[Row, Flags, float], Flags]
    idle: bool = False  # may choose nothing: a quota or probability of zero
    grows: bool = True  # a larger knob chooses at least the same slots


def whole(knob: float) -> int:
    return round(knob * 4)


CASES = {
    "quota": Case(lambda s, o, k: select.quota(s, o, whole(k)), lambda s, o, k: loop_quota(s, o, whole(k)), idle=True),
    "threshold": Case(lambda s, o, k: select.threshold(s, o, 1 - k), lambda s, o, k: loop_threshold(s, o, 1 - k)),
    "strict threshold": Case(
        lambda s, o, k: select.threshold(s, o, 1 - k, strict=True),
        lambda s, o, k: loop_threshold(s, o, 1 - k, strict=True),
    ),
    "factor": Case(select.factor, loop_factor),
    "entropy_bound": Case(select.entropy_bound, loop_entropy_bound),
    "entropy_bounded": Case(select.entropy_bounded, loop_entropy_bounded),
    "leftmost": Case(
        lambda s, o, k: select.leftmost(o, whole(k)), lambda s, o, k: loop_leftmost(o, whole(k)), idle=True
    ),
    # fewer sure slots than the quota fall back to it, so a lower threshold may choose fewer slots
    "dynamic": Case(
        lambda s, o, k: select.dynamic(s, o, 1 - k, 2), lambda s, o, k: loop_dynamic(s, o, 1 - k, 2), grows=False
    ),
    "threshold_within": Case(
        lambda s, o, k: select.threshold_within(s, o, 1 - k, 3),
        lambda s, o, k: loop_threshold_within(s, o, 1 - k, 3),
    ),
    "bernoulli": Case(select.bernoulli, loop_bernoulli, idle=True),
}

knobs = st.integers(0, 2 * GRID).map(lambda n: n / GRID)


@st.composite
def batches(draw: st.DrawFn, *, distinct: bool = False) -> tuple[list[Row], list[Flags]]:
    """One to three rows of equal length."""
    length, rows = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    numbers = st.integers(0, GRID).map(lambda n: n / GRID)
    row = st.lists(numbers, min_size=length, max_size=length, unique=distinct)
    flag = st.lists(st.booleans(), min_size=length, max_size=length)
    return [draw(row) for _ in range(rows)], [draw(flag) for _ in range(rows)]


def call(case: Case, scores: Sequence[Row], opens: Sequence[Flags], knob: float) -> Tensor:
    return case.fast(torch.tensor(scores, dtype=torch.float64), torch.tensor(opens), knob)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60)
@given(batch=batches(), knob=knobs)
def test_equals_its_loop_in_every_row(name: str, batch: tuple[list[Row], list[Flags]], knob: float) -> None:
    """Which also makes the rows of a batch independent of each other, and ties fall to the lower slot."""
    case, (scores, opens) = CASES[name], batch
    chosen = call(case, scores, opens, knob)
    assert chosen.dtype == torch.bool
    assert chosen.tolist() == [case.slow(s, o, knob) for s, o in zip(scores, opens, strict=True)]
    assert not bool((chosen & ~torch.tensor(opens)).any())
    if not case.idle:
        assert chosen.any(-1).tolist() == torch.tensor(opens).any(-1).tolist()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.grows])
@settings(max_examples=40)
@given(batch=batches(), knob=knobs, more=knobs)
def test_a_wider_knob_never_drops_a_slot(
    name: str, batch: tuple[list[Row], list[Flags]], knob: float, more: float
) -> None:
    narrow, wide = (call(CASES[name], *batch, k) for k in (knob, knob + more))
    assert not bool((narrow & ~wide).any())


@pytest.mark.parametrize("name", [name for name in CASES if name != "leftmost"])
@settings(max_examples=40)
@given(batch=batches(distinct=True), knob=knobs, data=st.data())
def test_slots_may_come_in_any_order(
    name: str, batch: tuple[list[Row], list[Flags]], knob: float, data: st.DataObject
) -> None:
    """Without ties a permutation of the slots permutes the choice."""
    scores, opens = batch
    order = data.draw(st.permutations(range(len(scores[0]))))
    moved = call(CASES[name], [[s[i] for i in order] for s in scores], [[o[i] for i in order] for o in opens], knob)
    assert torch.equal(moved, call(CASES[name], scores, opens, knob)[:, order])


@settings(max_examples=60)
@given(batch=batches(), f=st.sampled_from([0.25, 0.5, 1.0, 2.0]))
def test_the_published_factor_loop_differs_where_documented(batch: tuple[list[Row], list[Flags]], f: float) -> None:
    """Fast-dLLM's loop cannot tell "the last one failed" from "all passed"; it then takes the last one, too."""
    for score, open in zip(*batch, strict=True):
        ranked = order(score, open)
        if not ranked:
            continue
        limits = [-1.0, *(1 - f / (rank + 1) for rank in range(2, len(ranked) + 1))]
        place = 0
        for place, slot in enumerate(ranked):
            if score[slot] < limits[place]:
                break
        if place in (0, len(ranked) - 1):
            place += 1
        published, ours = ranked[:place], [s for s, yes in enumerate(loop_factor(score, open, f)) if yes]
        last_failed = len(ours) == len(ranked) - 1 and score[ranked[-1]] < limits[-1]
        assert sorted(published) == sorted([*ours, *([ranked[-1]] if last_failed else [])])


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=25)
@given(batch=batches(), threshold=st.sampled_from([0.0, 0.5, 1.0]), quota=st.integers(1, 4))
def test_every_published_policy_makes_progress(
    name: str, batch: tuple[list[Row], list[Flags]], threshold: float, quota: int
) -> None:
    """With a quota of at least one; `origin` in its last pass, whose probability is 1."""
    scores, opens = torch.tensor(batch[0]), torch.tensor(batch[1])
    if POLICIES[name].score == "entropy":
        scores = -scores
    if POLICIES[name].score == "random":
        scores = scores * 0.99  # a draw is below 1
    chosen = FUNCTIONS[name](scores, opens, Knobs(threshold=threshold, quota=quota, probability=1.0))
    assert chosen.any(-1).tolist() == opens.any(-1).tolist()
    assert not bool((chosen & ~opens).any())


@given(batch=batches(), bound=st.integers(0, GRID).map(lambda n: n / GRID))
def test_an_entropy_threshold_takes_all_below_it_or_else_the_lowest(
    batch: tuple[list[Row], list[Flags]], bound: float
) -> None:
    """As in WeDLM's engine; what is exactly at the bound is not below it."""
    for heights, open in zip(*batch, strict=True):
        slots = [slot for slot, free in enumerate(open) if free]
        below = [slot for slot in slots if heights[slot] < bound] or sorted(slots, key=lambda slot: heights[slot])[:1]
        score = -torch.tensor(heights, dtype=torch.float64)
        chosen = FUNCTIONS["entropy_threshold"](score, torch.tensor(open), Knobs(entropy_threshold=bound))
        assert chosen.nonzero().flatten().tolist() == below


def test_every_policy_of_the_catalog_has_its_function() -> None:
    assert set(FUNCTIONS) == set(POLICIES)


@pytest.mark.parametrize("name", ["low_confidence", "maskgit_plus", "entropy", "topk_margin", "random"])
def test_a_quota_of_zero_commits_nothing(name: str) -> None:
    """The published exception: Dream's time grid gives a pass nothing to do."""
    chosen = FUNCTIONS[name](torch.tensor([0.5, 0.7]), torch.tensor([True, True]), Knobs(quota=0))
    assert not bool(chosen.any())


def test_strict_and_loose_thresholds_differ_at_equality_only() -> None:
    confidence, open = torch.tensor([0.95, 0.9, 0.8]), torch.ones(3, dtype=torch.bool)
    at = float(confidence[1])
    assert select.threshold(confidence, open, at).tolist() == [True, True, False]
    assert select.threshold(confidence, open, at, strict=True).tolist() == [True, False, False]


def test_the_surest_slot_is_committed_below_any_threshold() -> None:
    confidence = torch.tensor([0.1, 0.3, 0.3])
    assert select.threshold(confidence, torch.tensor([True, True, True]), 1.0).tolist() == [False, True, False]
    assert select.threshold(confidence, torch.tensor([True, False, True]), 1.0).tolist() == [False, False, True]


def test_infinite_and_zero_scores_still_rank() -> None:
    """A delayed token has confidence 0, a slot without any doubt entropy 0."""
    zero = torch.zeros(3)
    assert select.quota(zero, torch.tensor([False, True, True]), 1).tolist() == [False, True, False]
    assert select.entropy_bound(zero, torch.ones(3, dtype=torch.bool), 0.0).tolist() == [True, True, True]
