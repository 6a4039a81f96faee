"""Loads one behind the other, each request a record."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from anyorder.bench.client import Failed, Sender, Target, connect, unavailable
from anyorder.bench.load import Closed, Load
from anyorder.bench.prompts import Ask, Workload
from anyorder.bench.records import Record, RecordFile
from anyorder.bench.summary import spans
from anyorder.errors import ParameterError

Told = Callable[[str, Record], None]
"""Hears of every record as it is made."""


@dataclass(frozen=True, kw_only=True)
class Amount:
    """How much is sent under each load: a number of requests, or for some time, or what is less."""

    requests: int | None = 32
    duration_s: float | None = None
    warm_up: int = 1
    """Requests before the first load that are not recorded."""
    timeout_s: float = 600.0
    """Seconds for one request."""

    def __post_init__(self) -> None:
        if self.requests is None and self.duration_s is None:
            raise ParameterError("give `requests` or `duration`: the run would have no end", param="requests")
        given = {"requests": self.requests, "duration_s": self.duration_s, "timeout_s": self.timeout_s}
        for name, value in given.items():
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ParameterError(f"`{name}` must be above 0, got {value}", param=name)
        if self.warm_up < 0:
            raise ParameterError(f"`warm_up` must be at least 0, got {self.warm_up}", param="warm_up")


async def run(
    target: Target,
    workload: Workload,
    loads: Sequence[Load],
    amount: Amount,
    file: RecordFile,
    *,
    told: Told = lambda load, record: None,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Put a server under all loads in turn; what `file` has already is not asked for again.

    Raises:
        MissingExtra: httpx2 is not installed.
        Unavailable: no request of the warm-up was answered.
    """
    async with connect(target) as http:
        sender = Sender(http, target.surface, clock, amount.timeout_s)
        await warm_up(target, sender, workload, amount.warm_up, loads[0])
        for load in loads:
            await _measure(sender, workload, load, amount, file, told)


async def warm_up(target: Target, sender: Sender, workload: Workload, count: int, load: Load) -> None:
    """Send some requests as the first load would, and see that the server answers."""
    failures: list[Record] = []

    async def send(ask: Ask, due: float) -> None:
        record = await sender.send(ask, due=due, load="warm-up", session=0)
        if record.error:
            failures.append(record)

    together = Closed(load.concurrency if isinstance(load, Closed) else 1)
    await together.run(map(workload.ask, range(-count, 0)), send, sender.clock, until=math.inf)
    if count and len(failures) == count:
        raise unavailable(target, Failed(failures[0].error or "", failures[0].detail))


async def _measure(
    sender: Sender, workload: Workload, load: Load, amount: Amount, file: RecordFile, told: Told
) -> None:
    done = file.of(load.name)
    numbers = missing({record.index for record in done}, amount.requests)
    spent = sum(spans(done).values())
    until = math.inf if amount.duration_s is None else sender.clock() + amount.duration_s - spent

    async def send(ask: Ask, due: float) -> None:
        record = await sender.send(ask, due=due, load=load.name, session=file.session)
        file.add(record)
        told(load.name, record)

    await load.run((workload.ask(number, load.name) for number in numbers), send, sender.clock, until=until)


def missing(done: set[int], requests: int | None) -> Iterable[int]:
    """The numbers of the requests that are still to be sent."""
    numbers: Iterator[int] = itertools.count() if requests is None else iter(range(requests))
    return (number for number in numbers if number not in done)
