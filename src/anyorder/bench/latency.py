"""Streams and voice turns, one kind behind the other, with other clients behind them if wanted."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from anyorder.bench.client import Sender, Target, connect
from anyorder.bench.load import Closed, Load
from anyorder.bench.prompts import Ask, Workload
from anyorder.bench.records import RecordFile
from anyorder.bench.run import Amount, Told, measure, missing, warm_up

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
PAUSE_S = 1.0
"""Before a client in the background asks again whose request failed."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of request."""

    load: Load
    """How they are sent; its name is the case's."""
    workload: Workload


@dataclass(frozen=True, kw_only=True)
class Background:
    """Clients who ask all the time while a case is measured."""

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
    """Measure all cases in turn; what `file` has already is not asked for again.

    Requests of the background are records under the name `behind(case)`.

    Raises:
        MissingExtra: httpx2 is not installed.
        Unavailable: no request of the warm-up, which is of the first case, was answered.
    """
    async with connect(target) as http:
        sender = Sender(http, target.surface, clock, amount.timeout_s, keep_text=True)
        await warm_up(target, sender, cases[0].workload, amount.warm_up, cases[0].load)
        for case in cases:
            done = {record.index for record in file.of(case.load.name)}
            if next(iter(missing(done, amount.requests)), None) is None:
                continue
            over = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                if background is not None:
                    group.create_task(_keep_busy(sender, background, behind(case.load.name), file, told, over))
                try:
                    await measure(sender, case.workload, case.load, amount, file, told)
                finally:
                    over.set()


def behind(case: str) -> str:
    """The name of the records of the background of a case."""
    return f"{case}, background"


async def _keep_busy(
    sender: Sender, background: Background, name: str, file: RecordFile, told: Told, over: asyncio.Event
) -> None:
    """Ask until the case is over; returns when the last answer is complete."""
    begin = max((record.index for record in file.of(name)), default=-1) + 1

    def asks() -> Iterator[Ask]:
        for number in itertools.count(begin):
            if over.is_set():
                return
            yield background.workload.ask(number, name)

    async def send(ask: Ask, due: float) -> None:
        record = await sender.send(ask, due=due, load=name, session=file.session)
        file.add(record)
        told(name, record)
        if record.error is not None and not over.is_set():
            await asyncio.sleep(PAUSE_S)

    await Closed(background.streams).run(asks(), send, sender.clock, until=math.inf)
