"""The area under the accuracy-parallelism curve, against its formula by hand."""

from __future__ import annotations

import math

import pytest

from anyorder.sweep.front import aup, front


def test_the_area_is_that_of_the_formula() -> None:
    weight = math.exp(-3 * (1 - 78 / 80))
    expected = 1 * 80 + (3 - 1) * (80 + 78 * weight) / 2
    assert aup([(3, 78), (1, 80)], best=80) == pytest.approx(expected)


def test_what_fell_off_the_cliff_does_not_count() -> None:
    assert aup([(1, 80), (2, 75), (9, 74.9)], best=80) == aup([(1, 80), (2, 75)], best=80)


def test_one_point_is_its_rectangle_and_none_is_nothing() -> None:
    assert aup([(2, 50)], best=100) == 100
    assert aup([], best=100) == 0
    assert aup([(2, 0)], best=0) == 0


def test_the_best_of_another_method_weighs() -> None:
    assert aup([(1, 80), (2, 80)], best=100) < aup([(1, 80), (2, 80)], best=80)


def test_the_front_is_what_nothing_beats() -> None:
    assert front([(1, 90), (2, 95), (3, 50), (2, 60), (4, 50)]) == [1, 4]
    assert front([]) == []
