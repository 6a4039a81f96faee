"""The answers of one request on their way: tickets in, deltas out, and nobody left running behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from anyorder.events import BlockFinished, Event, Scored
from anyorder.scoring import ScoreFold
from anyorder.server.onward import added, onward
from anyorder.server.streams.answer import Answer, Delta
from anyorder.server.streams.tokens import Token
from anyorder.serving import Computed, Ticket


@dataclass
class Choice:
    """One answer of a request."""

    index: int
    """Among the answers of the request."""
    prompt: int
    """Which prompt of the request it answers."""
    ticket: Ticket
    """Of its first request, and with answers whose reasoning was closed for them, not the last one."""
    answer: Answer
    hole_length: int = 0
    """Slots of the prompt that are to be filled."""
    tokens: list[Token] = field(default_factory=list[Token])
    """Delivered so far, where they are wanted."""
    seams: Callable[[Choice], Awaitable[Ticket]] | None = None
    """Asks the engine for the seams of the finished answer, where they are wanted."""
    events: list[Event] = field(default_factory=list[Event])
    """What happened so far, where seams are wanted."""
    resume: Callable[[Choice], Awaitable[Ticket]] | None = None
    """Asks the engine to go on behind reasoning that was closed for it."""
    scores: ScoreFold | None = None
    """What is said of the text, where there is no answer and the prompt is scored."""
    computed: Computed = field(default_factory=Computed)
    """What it took up to its last event, also where a stop string ended it."""
    block_ends: list[int] = field(default_factory=list[int])
    """Positions computed up to the end of each finished block."""
    asked_at: float = field(default_factory=time.monotonic)
    first_text_at: float | None = None
    last_at: float | None = None

    def __post_init__(self) -> None:
        self.running = self.ticket
        self.before = Computed()  # what the requests before the running one took

    async def go_on(self) -> None:
        """Let the engine write on behind reasoning that was closed for it."""
        assert self.resume is not None, "only answers with a budget stop in between"
        ended, self.before = self.running, self.computed
        self.running = await self.resume(self)
        ended.cancel()  # not before: a service that drains ends when it has nothing to do

    def placed(self, event: Event, computed: Computed) -> tuple[Event, Computed]:
        """What the running request says, as part of the whole answer."""
        if self.running is self.ticket:
            return event, computed
        return onward(event, self.before, self.answer.fold.answer_start), added(self.before, computed)

    def add(self, event: Event, computed: Computed) -> Delta:
        """Take one event, and what the answer had taken when it came."""
        self.computed = computed
        if self.seams is not None:
            self.events.append(event)
        if isinstance(event, BlockFinished):
            self.block_ends.append(computed.positions)
        if self.scores is not None:
            self.scores.add(event)
        delta = Delta() if isinstance(event, Scored) else self.answer.add(event)
        self.tokens += delta.tokens
        self.last_at = time.monotonic()
        if delta.parts and self.first_text_at is None:
            self.first_text_at = self.last_at
        return delta

    @property
    def prompt_tokens(self) -> int:
        """Tokens that the client wrote, with the template's."""
        return self.ticket.prompt_tokens - self.hole_length

    @property
    def cached_tokens(self) -> int:
        """Those of them that an earlier request had computed."""
        return self.ticket.cached_tokens


Step = tuple[Choice, Event, Delta]
_Happened = tuple[Choice, Ticket, Event | Exception, Computed]


async def run(choices: Sequence[Choice]) -> AsyncGenerator[Step]:
    """What happens to the answers, as it happens; whoever leaves early has cancelled them.

    Raises:
        ServingError: of the first answer that failed; the others are cancelled.
    """
    queue: asyncio.Queue[_Happened] = asyncio.Queue()
    tasks = [asyncio.create_task(_follow(choice, queue)) for choice in choices]
    running = len(tasks)
    try:
        while running:
            choice, ticket, happened, computed = await queue.get()
            if choice.answer.finish_reason or ticket is not choice.running:
                continue  # a stop string or a budget ended it; what the engine still says does not matter
            if isinstance(happened, Exception):
                raise happened
            happened, computed = choice.placed(happened, computed)
            delta = choice.add(happened, computed)
            if delta.finish_reason:
                choice.running.cancel()
                running -= 1
            yield choice, happened, delta
            if choice.answer.onward is not None:
                await choice.go_on()
                tasks.append(asyncio.create_task(_follow(choice, queue)))
    finally:
        for choice in choices:
            choice.running.cancel()
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(choice: Choice, queue: asyncio.Queue[_Happened]) -> None:
    ticket = choice.running
    try:
        async for event in ticket:
            queue.put_nowait((choice, ticket, event, ticket.computed))
    except Exception as error:
        queue.put_nowait((choice, ticket, error, ticket.computed))


async def collect(choices: Sequence[Choice]) -> None:
    """Run all answers to their ends."""
    async for _ in run(choices):
        pass
