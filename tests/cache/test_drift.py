"""The running figures of `Drift` against the definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyorder.cache.drift import Drift


@given(passes=st.lists(st.lists(st.integers(-50, 50), min_size=1, max_size=5), min_size=1, max_size=5))
def test_max_and_mean_are_those_of_all_rows(passes: list[list[int]]) -> None:
    drift, width = Drift(), 3
    for rows in passes:
        exact = torch.zeros(len(rows), width, dtype=torch.float64)
        drift = drift.add(exact + torch.tensor(rows, dtype=torch.float64)[:, None], exact)
    values = [abs(value) for rows in passes for value in rows]
    assert drift.rows == len(values)
    assert drift.max_abs == max(values)
    assert drift.mean_abs == pytest.approx(sum(values) / len(values))


def test_a_pass_without_rows_counts_nothing() -> None:
    empty = torch.empty(0, 4)
    assert Drift().add(empty, empty) == Drift()


def test_infinite_logits_are_left_out() -> None:
    exact = torch.tensor([[0.0, -torch.inf], [1.0, 2.0]])
    assert Drift().add(exact + 0.5, exact).max_abs == 0.5


def test_rows_of_infinite_logits_only_are_no_drift() -> None:
    endless = torch.full((1, 3), -torch.inf)
    assert Drift().add(endless, endless).max_abs == 0.0
