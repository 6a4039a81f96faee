"""Noise schedules and the ancestral grids made of them."""

from __future__ import annotations

import pytest

from anyorder.policies.catalog import Schedule
from anyorder.policies.noise import SHARES, Noise, revealed
from anyorder.policies.schedule import PassSchedule


@pytest.mark.parametrize("noise", list(SHARES))
def test_the_share_grows_from_nothing_to_all(noise: Noise) -> None:
    shares = [SHARES[noise](t / 20) for t in range(21)]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == pytest.approx(1)


@pytest.mark.parametrize("noise", list(SHARES))
def test_small_steps_reveal_what_one_large_step_does(noise: Noise) -> None:
    kept = 1.0
    for step in range(8):
        kept *= 1 - revealed(noise, 1 - step / 10, 1 - (step + 1) / 10)
    assert 1 - kept == pytest.approx(revealed(noise, 1.0, 0.2))


@pytest.mark.parametrize("kind", ["ancestral", "ancestral_blocks"])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_nothing_is_left_at_the_end_of_time(kind: Schedule, steps: int) -> None:
    schedule = PassSchedule(kind=kind, total=4, steps=steps, eps=1e-5)
    chances = [schedule.probability(step) for step in range(steps + 1)]
    assert all(0 < chance <= 1 for chance in chances)
    assert chances[-1] == 1
    assert schedule.ends(steps) == (kind == "ancestral")
    assert not schedule.ends(steps - 1)


def test_the_published_grids() -> None:
    """MDLM: the chances recorded for 10 steps; BD3-LM: for 8, with times that are 1/7 apart and steps of 1/8."""
    mdlm = PassSchedule(kind="ancestral", total=32, steps=10, eps=1e-5)
    assert mdlm.probability(0) == pytest.approx(1 - 0.900001, abs=1e-6)
    bd3lm = PassSchedule(kind="ancestral_blocks", total=4, steps=8)
    assert [1 - bd3lm.probability(i) for i in range(7)] == pytest.approx(
        [0.875, 0.8541667, 0.825, 0.78125, 0.7083333, 0.5625, 0.125], abs=1e-6
    )
