"""Arrivals: closed loops never exceed their clients, open ones wait for nobody and measure from the schedule."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Iterator
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.bench import load as load_module
from anyorder.bench.load import Closed, Load, Open
from anyorder.bench.prompts import Ask
from anyorder.errors import ParameterError


def asks(count: int) -> Iterator[Ask]:
    return (Ask(index=index, body={}) for index in range(count))


class Time:
    """Moves when somebody sleeps, to the earliest of those who wait."""

    def __init__(self) -> None:
        self.now = 50.0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await real_sleep(0)


real_sleep = asyncio.sleep


@given(st.integers(1, 7), st.integers(0, 25))
def test_a_closed_loop_has_so_many_on_their_way(concurrency: int, count: int) -> None:
    running, most = set[int](), list[int]()
    sent: list[int] = []

    async def send(ask: Ask, due: float) -> None:
        running.add(ask.index)
        most.append(len(running))
        for _ in range(1 + ask.index % 3):
            await real_sleep(0)
        running.remove(ask.index)
        sent.append(ask.index)

    asyncio.run(Closed(concurrency).run(asks(count), send, lambda: 0.0, until=math.inf))
    assert sorted(sent) == list(range(count))
    assert max(most, default=0) == min(concurrency, count)


@pytest.mark.parametrize("load", [Closed(3), Open(2.0)])
def test_a_duration_ends_the_sending_and_not_the_answers(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    monkeypatch.setattr(load_module.asyncio, "sleep", time.sleep)
    begun, ended = list[float](), list[float]()

    async def send(ask: Ask, due: float) -> None:
        begun.append(due)
        await real_sleep(0)
        time.now += 1.0 if isinstance(load, Closed) else 0.0
        ended.append(due)

    asyncio.run(load.run(asks(10_000), send, time.clock, until=60.0))
    assert len(begun) == len(ended) > 5
    assert max(begun) < 60.0


def test_arrivals_keep_their_schedule_when_the_sender_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine stands still for 100 s: what was due in that time is due when it was, not afterwards."""
    time = Time()
    dues: list[float] = []

    async def stalls(seconds: float) -> None:
        await time.sleep(seconds + (100.0 if not dues else 0.0))

    monkeypatch.setattr(load_module.asyncio, "sleep", stalls)

    async def send(ask: Ask, due: float) -> None:
        dues.append(due)
        assert ask.index > 20 or time.now - due > 50

    load = Open(1.0, seed=3)
    asyncio.run(load.run(asks(40), send, time.clock, until=math.inf))
    assert dues == pytest.approx([50.0 + arrival for arrival in islice(load.arrivals(), 40)])


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 16.0])
def test_gaps_have_the_mean_and_spread_that_were_asked_for(burstiness: float) -> None:
    """The squared coefficient of variation of a gamma distribution is 1 / shape: 1 for a Poisson process."""
    gaps = [b - a for a, b in pairwise(islice(Open(4.0, burstiness, seed=1).arrivals(), 20_001))]
    assert statistics.mean(gaps) == pytest.approx(0.25, rel=0.05)
    assert statistics.variance(gaps) / statistics.mean(gaps) ** 2 == pytest.approx(1 / burstiness, rel=0.1)


def test_the_seed_decides_the_arrivals() -> None:
    assert list(islice(Open(1.0, seed=1).arrivals(), 9)) == list(islice(Open(1.0, seed=1).arrivals(), 9))
    assert list(islice(Open(1.0, seed=1).arrivals(), 9)) != list(islice(Open(1.0, seed=2).arrivals(), 9))


def test_loads_are_checked() -> None:
    with pytest.raises(ParameterError, match="`concurrency` must be at least 1, got 0"):
        Closed(0)
    with pytest.raises(ParameterError, match="`rate` must be above 0, got nan"):
        Open(math.nan)
    with pytest.raises(ParameterError, match="`burstiness` must be above 0"):
        Open(1.0, 0.0)
