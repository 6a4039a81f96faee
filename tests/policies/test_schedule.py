"""Shares of the passes as each family publishes them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyorder.policies import schedule
from anyorder.policies.schedule import PassSchedule


@given(slots=st.integers(0, 200), steps=st.integers(1, 100))
def test_even_shares_add_up_and_differ_by_one_at_most(slots: int, steps: int) -> None:
    shares = schedule.even(slots, steps)
    assert len(shares) == steps
    assert sum(shares) == slots
    assert max(shares) - min(shares) <= 1
    assert shares == sorted(shares, reverse=True)


@given(slots=st.integers(1, 64), steps=st.integers(1, 64), eps=st.sampled_from([1e-3, 0.1, 0.9]))
def test_the_time_grid_equals_the_published_loop_and_fills_everything(slots: int, steps: int, eps: float) -> None:
    """Written as Dream's sampler writes it, with torch scalars of float32."""
    left, times = slots, torch.linspace(1, eps, steps + 1)
    for step in range(steps):
        t, s = times[step], times[step + 1]
        masked = torch.tensor(left, dtype=torch.float32)
        published = int(masked * (1 - s / t)) if step < steps - 1 else left
        assert schedule.timesteps(left, step, steps, eps) == published
        left -= published
    assert left == 0


def test_as_many_steps_as_slots_idle_once_and_commit_two_at_last() -> None:
    """The published quirk that a run without `steps` does not inherit."""
    left, shares = 8, []
    for step in range(8):
        shares.append(schedule.timesteps(left, step, 8, 1e-3))
        left -= shares[-1]
    assert shares == [0, 1, 1, 1, 1, 1, 1, 2]
    one_by_one = PassSchedule(kind="timesteps", total=8)
    assert [one_by_one.quota(step, 8 - step) for step in range(8)] == [1] * 8


@given(total=st.integers(1, 40), steps=st.integers(1, 60), kind=st.sampled_from(["even", "budget"]))
def test_every_pass_of_a_schedule_may_commit_something(total: int, steps: int, kind: str) -> None:
    """Also with more steps than slots, and behind the last scheduled pass."""
    planned = PassSchedule(kind=kind, total=total, steps=steps)  # type: ignore[arg-type]
    left, passes = total, 0
    while left:
        share = planned.quota(passes, left)
        left -= min(left, max(share, 1))  # a budget of zero still commits the surest slot
        assert kind == "budget" or share >= 1
        passes += 1
    assert passes <= total


def test_more_steps_than_slots_leave_no_pass_idle() -> None:
    """Slots that a schedule does not count (holes left of a block) are candidates, too."""
    planned = PassSchedule(kind="even", total=2, steps=5)
    assert [planned.quota(step, 9) for step in range(7)] == [1] * 7


@given(multiple=st.integers(1, 8), steps=st.integers(1, 8))
def test_the_budget_is_spent_evenly_and_keeps_what_was_left(multiple: int, steps: int) -> None:
    total = multiple * steps
    assert schedule.budget(total, total, 0, steps) == multiple
    assert (
        schedule.budget(total - 1, total, 1, steps) == min(2 * multiple, total) - 1
    )  # one committed instead of a share
    assert schedule.budget(3, total, steps - 1, steps) == 3
    assert schedule.budget(3, total, steps + 5, steps) == 3


@pytest.mark.parametrize("eps", [1e-3, 0.5])
def test_the_ancestral_probabilities_end_at_one(eps: float) -> None:
    steps = PassSchedule(kind="timesteps", total=10, steps=5, eps=eps)
    chances = [steps.probability(step) for step in range(7)]
    assert chances[4:] == [1.0, 1.0, 1.0]
    assert all(0 < chance < 1 for chance in chances[:4])
    assert chances[:4] == sorted(chances[:4])
