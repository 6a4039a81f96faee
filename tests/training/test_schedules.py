from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.training.schedules import cosine, warmed, wsd


def test_cosine_begins_and_ends_where_it_should() -> None:
    factors = [cosine(step, steps=100, warmup=10, floor=0.1) for step in range(101)]
    assert factors[:10] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    assert factors[10] == 1
    assert factors[55] == pytest.approx(0.55)  # half way
    assert factors[100] == pytest.approx(0.1)


def test_wsd_is_flat_until_its_decay() -> None:
    factors = [wsd(step, steps=100, warmup=10, decay=20, floor=0.1) for step in range(100)]
    assert factors[9:80] == [1.0] * 71
    assert factors[80] == pytest.approx(0.1 + 0.9 * (1 - math.sqrt(1 / 21)))
    assert factors[99] == pytest.approx(0.1 + 0.9 * (1 - math.sqrt(20 / 21)))


def test_without_warm_up_the_first_step_is_the_largest() -> None:
    assert warmed(0, 0) == cosine(0, steps=5, warmup=0, floor=0) == wsd(0, steps=5, warmup=0, decay=1, floor=0) == 1


@given(st.integers(1, 60), st.data(), st.floats(0, 1))
def test_rates_rise_once_and_fall_once(steps: int, data: st.DataObject, floor: float) -> None:
    warmup = data.draw(st.integers(0, steps))
    decay = data.draw(st.integers(0, steps - warmup))
    for factors in (
        [cosine(step, steps=steps, warmup=warmup, floor=floor) for step in range(steps)],
        [wsd(step, steps=steps, warmup=warmup, decay=decay, floor=floor) for step in range(steps)],
    ):
        assert all(0 < factor <= 1 + 1e-9 for factor in factors[: max(1, warmup)])
        assert all(a < b for a, b in itertools.pairwise(factors[:warmup]))
        assert all(a >= b - 1e-12 for a, b in itertools.pairwise(factors[max(0, warmup - 1) :]))
        assert all(factor >= floor - 1e-12 for factor in factors[warmup:])
