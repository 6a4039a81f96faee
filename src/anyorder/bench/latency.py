"""One user who asks in several ways by turns, with other clients in the background if wanted."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from anyorder.bench.client import Sender, Target, connect
from anyorder.bench.load import Closed
from anyorder.bench.prompts import Ask, Workload
from anyorder.bench.records import Record, RecordFile
from anyorder.bench.run import Amount, Told, warm_up
from anyorder.errors import ParameterError

VOICE: tuple[str, ...] = (
    "What time is it in Tokyo when it is noon in London?",
    "Will I need an umbrella in a light drizzle?",
    "How long do I boil an egg?",
    "Remind me what RSVP stands for.",
    "Which way does the sun set?",
    "How many grams are in a pound?",
    "What can I cook with rice and two eggs?",
    "Tell me a short joke.",
)
"""What people say to a voice assistant: answers are a sentence or two."""
BACKGROUND = "background"
PAUSE_S = 1.0
"""Before a client in the background asks again whose request failed."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of request."""

    name: str
    """Of its records."""
    workload: Workload
    think_s: float = 0.0
    """Mean seconds of the pauses before its requests, which are drawn from an exponential distribution."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.think_s) and self.think_s >= 0):
            raise ParameterError(f"`think` must be at least 0, got {self.think_s}", param="think")

    def pause_s(self, number: int) -> float:
        """Before the request of that number; the same for all kinds that think for as long."""
        dice = random.Random(f"{self.workload.seed} {number} think")
        return dice.expovariate(1 / self.think_s) if self.think_s else 0.0


@dataclass(frozen=True, kw_only=True)
class Background:
    """Clients who ask all the time; their records have the load `BACKGROUND`."""

    streams: int
    workload: Workload


async def run_cases(
    target: Target,
    cases: Sequence[Case],
    amount: Amount,
    file: RecordFile,
    *,
    background: Background | None = None,
    told: Told = lambda load, record: None,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """One user asks, a request behind the answer to the one before; what `file` has is not asked for again.

    Args:
        amount: `requests` of each case.
    Raises:
        MissingExtra: httpx2 is not installed.
        Unavailable: no request of the warm-up, which is of the first case, was answered.
    """
    async with connect(target) as http:
        sender = Sender(http, target.surface, clock, amount.timeout_s, keep_text=True)
        turns = list(_turns(cases, amount.requests or 0, file))
        if not turns:
            return
        await warm_up(target, sender, cases[0].workload, amount.warm_up, Closed(1))
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            if background is not None:
                group.create_task(_keep_busy(sender, background, file, told, over))
            for case, number in turns:
                await asyncio.sleep(case.pause_s(number))
                ask = case.workload.ask(number, case.name)
                await _record(sender, ask, case.name, file, told)
            over.set()


def _turns(cases: Sequence[Case], requests: int, file: RecordFile) -> Iterator[tuple[Case, int]]:
    """What is still to be asked: all kinds in turn, so that what changes on the machine meets them all; in the other
    order every second time, so that each finds its prompt in a cache of prefixes as often as the others."""
    done = {(record.load, record.index) for record in file.records}
    for number in range(requests):
        for case in cases if number % 2 == 0 else cases[::-1]:
            if (case.name, number) not in done:
                yield case, number


async def _record(sender: Sender, ask: Ask, load: str, file: RecordFile, told: Told) -> Record:
    record = await sender.send(ask, due=sender.clock(), load=load, session=file.session)
    file.add(record)
    told(load, record)
    return record


async def _keep_busy(sender: Sender, background: Background, file: RecordFile, told: Told, over: asyncio.Event) -> None:
    """Ask until the user has done; returns when the last answer is complete."""
    begin = max((record.index for record in file.of(BACKGROUND)), default=-1) + 1

    def asks() -> Iterator[Ask]:
        for number in itertools.count(begin):
            if over.is_set():
                return
            yield background.workload.ask(number, BACKGROUND)

    async def send(ask: Ask, due: float) -> None:
        record = await _record(sender, ask, BACKGROUND, file, told)
        if record.error is not None and not over.is_set():
            await asyncio.sleep(PAUSE_S)

    await Closed(background.streams).run(asks(), send, sender.clock, until=math.inf)
