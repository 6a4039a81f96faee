"""Rates come from the shortest time that the clock saw."""

from __future__ import annotations

import pytest
import torch

from anyorder import rates

CPU = torch.device("cpu")


def test_the_shortest_run_counts_and_the_first_does_not() -> None:
    runs = 0

    def act() -> None:
        nonlocal runs
        runs += 1

    # first run 0-0.01; the time is up at 1.0; runs of 0.5, 0.25 and 0.5
    clock = iter([0.0, 0.01, 0.0, 0.0, 0.5, 0.6, 0.6, 0.85, 0.9, 0.9, 1.4, 1.5]).__next__
    assert rates.best_time(act, CPU, seconds=1.0, clock=clock) == pytest.approx(0.25)
    assert runs == 4


def test_a_rate_is_that_of_a_square_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "SIDE", 64)
    monkeypatch.setattr(rates, "best_time", lambda act, device, **more: 0.5)
    assert rates.matrix_rate(torch.float32, CPU) == 2 * 64**3 / 0.5
