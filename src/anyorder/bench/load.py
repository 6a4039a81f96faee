"""When requests are sent: as answers come (closed loop), or as a clock says (open loop)."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from anyorder.bench.prompts import Ask
from anyorder.errors import ParameterError

Send = Callable[[Ask, float], Awaitable[None]]
"""Sends a request that was due at this time and returns at its end."""


class Load(Protocol):
    """A way to put a server under load."""

    @property
    def name(self) -> str: ...

    async def run(self, asks: Iterable[Ask], send: Send, clock: Callable[[], float], *, until: float) -> None:
        """Send all, or as many as are due before `until`; returns when the last one has ended."""
        ...


@dataclass(frozen=True)
class Closed:
    """So many clients, each of whom sends the next request when its answer is complete."""

    concurrency: int

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ParameterError(f"`concurrency` must be at least 1, got {self.concurrency}", param="concurrency")

    @property
    def name(self) -> str:
        return f"concurrency {self.concurrency}"

    async def run(self, asks: Iterable[Ask], send: Send, clock: Callable[[], float], *, until: float) -> None:
        """See `Load.run`."""
        shared = iter(asks)

        async def client() -> None:
            while (now := clock()) < until and (ask := next(shared, None)) is not None:
                await send(ask, now)

        async with asyncio.TaskGroup() as group:
            for _ in range(self.concurrency):
                group.create_task(client())


@dataclass(frozen=True)
class Open:
    """Requests that arrive whether or not others have been answered, as users do.

    The times between arrivals are drawn from a gamma distribution with mean 1 / rate. A request is due at its arrival:
    if the sender is late, the delay is the request's, so that a server that stalls cannot hide those who wait.

    Args:
        rate: arrivals per second.
        burstiness: shape of the gamma distribution; 1 is a Poisson process, less comes in bursts, more is even.
    """

    rate: float
    burstiness: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (("rate", self.rate), ("burstiness", self.burstiness)):
            if not (math.isfinite(value) and value > 0):
                raise ParameterError(f"`{name}` must be above 0, got {value}", param=name)

    @property
    def name(self) -> str:
        return f"rate {self.rate:g}"

    def arrivals(self) -> Iterator[float]:
        """Seconds from the start."""
        dice, time = random.Random(f"{self.seed} {self.rate} {self.burstiness}"), 0.0
        while True:
            time += dice.gammavariate(self.burstiness, 1 / (self.rate * self.burstiness))
            yield time

    async def run(self, asks: Iterable[Ask], send: Send, clock: Callable[[], float], *, until: float) -> None:
        """See `Load.run`."""
        began = clock()
        async with asyncio.TaskGroup() as group:
            for ask, arrival in zip(asks, self.arrivals(), strict=False):
                due = began + arrival
                if due >= until:
                    return
                await asyncio.sleep(max(due - clock(), 0))
                group.create_task(_sent(send, ask, due))


async def _sent(send: Send, ask: Ask, due: float) -> None:
    await send(ask, due)
