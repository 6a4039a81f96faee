"""One answer on its way from the engine's thread to whoever asked for it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass

from anyorder.errors import ServingError
from anyorder.events import Event
from anyorder.params import DecodeParams


@dataclass
class Timing:
    """Seconds since the request was submitted; None until then."""

    queued_s: float | None = None
    """Until it began to run."""
    first_pass_s: float | None = None
    """Until its first pass was computed."""
    first_commit_s: float | None = None
    """Until its first slot was decided."""
    total_s: float | None = None
    """Until its end, whatever it was."""

    def passed(self, seconds: float) -> None:
        """A pass was computed; only the first one counts."""
        if self.first_pass_s is None:
            self.first_pass_s = seconds

    def committed(self, seconds: float) -> None:
        """Slots were decided; only the first ones count."""
        if self.first_commit_s is None:
            self.first_commit_s = seconds


@dataclass(frozen=True, slots=True)
class Computed:
    """What an answer has taken so far."""

    passes: int = 0
    positions: int = 0


class Ticket:
    """The events of one answer, in order: iterate over it, in a coroutine or in a thread, once.

    The iteration ends behind `Finished`, or raises why there is none: Cancelled, DeadlineExceeded, EngineFailed,
    Unavailable. Whoever leaves it earlier has cancelled. Who reads late loses nothing: an answer has hardly more
    events than slots, and they wait here.

    Attributes:
        params: as resolved against the model.
        prompt_tokens: columns of the prompt, holes included.
        cached_tokens: columns of the prompt that an earlier request had computed.
        computed: up to the event that was read last.
    """

    def __init__(self, *, tag: str, params: DecodeParams, prompt_tokens: int) -> None:
        self.tag = tag
        self.params = params
        self.prompt_tokens = prompt_tokens
        self.cached_tokens = 0
        self.computed = Computed()
        self.timing = Timing()
        self._cancelled = False
        self._events: deque[tuple[Event, Computed]] = deque()
        self._closed = False
        self._error: ServingError | None = None
        self._changed = threading.Condition()
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def cancel(self) -> None:
        """Give the answer up: the engine drops it before its next pass. Any thread, any number of times."""
        self._cancelled = True

    @property
    def cancelled(self) -> bool:
        """True once somebody gave the answer up."""
        return self._cancelled

    @property
    def closed(self) -> bool:
        """True once no further event can come."""
        return self._closed

    def put(self, event: Event, computed: Computed) -> None:
        """Hand an event over, with what the answer had taken when it came; the engine's thread only."""
        with self._changed:
            self._events.append((event, computed))
            self._wake()

    def close(self, error: ServingError | None = None) -> None:
        """No further event comes; the engine's thread only."""
        with self._changed:
            self._closed, self._error = True, error
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        if self._waiting is not None:
            loop, waker = self._waiting
            with suppress(RuntimeError):  # the loop was closed, and nobody listens any more
                loop.call_soon_threadsafe(waker.set)

    def _next(self) -> Event | None:
        """The next event if there is one; raises how the answer failed behind the last one."""
        if self._events:
            event, self.computed = self._events.popleft()
            return event
        if self._error is not None:
            raise self._error
        return None

    async def __aiter__(self) -> AsyncIterator[Event]:
        waker = asyncio.Event()
        with self._changed:
            self._waiting = asyncio.get_running_loop(), waker
        try:
            while True:
                with self._changed:
                    waker.clear()
                    event, ended = self._next(), self._closed
                if event is not None:
                    yield event
                elif ended:
                    return
                else:
                    await waker.wait()
        finally:
            self.cancel()

    def __iter__(self) -> Iterator[Event]:
        try:
            while (event := self._wait()) is not None:
                yield event
        finally:
            self.cancel()

    def _wait(self) -> Event | None:
        with self._changed:
            while (event := self._next()) is None and not self._closed:
                self._changed.wait()
            return event
