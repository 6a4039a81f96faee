"""An OpenAI-compatible endpoint that is asked until it answers, or for good reasons no more."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from anyorder.bench.client import Failed as Refused
from anyorder.bench.client import Reading, Sender, Target, connect
from anyorder.bench.prompts import Ask
from anyorder.sweep.answer import Failed

if TYPE_CHECKING:
    import httpx2

TRIES, TIMEOUT_S, LONGEST_WAIT_S = 5, 600.0, 60.0
_AGAIN = re.compile(r"connect|broken|garbage|timeout|stream_error|http_(408|409|425|429|5\d\d)")
"""Kinds of failures that may be gone at the next try; all others would come again."""


@dataclass(frozen=True)
class Reply:
    """An answer as it came."""

    text: str
    usage: dict[str, Any]
    first_s: float
    """From the sending of the try that succeeded."""
    last_s: float
    retries: tuple[str, ...]


@dataclass
class Endpoint:
    """One request at a time, so that a time is that of one answer.

    Args:
        target: the server.
        model: as the server calls it.
        tries: per request, the first included.
        timeout_s: for one try.
        http: a client of the server; made if it is left out.
        clock, sleep: seconds.
    """

    target: Target
    model: str
    tries: int = TRIES
    timeout_s: float = TIMEOUT_S
    http: httpx2.AsyncClient | None = None
    clock: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep
    _runner: asyncio.Runner = field(default_factory=asyncio.Runner, init=False, repr=False)

    def ask(self, body: dict[str, Any], accept: Callable[[Reply], str | None] = lambda reply: None) -> Reply:
        """Send a request, again where that may help, after pauses that double or that the server asks for.

        Args:
            body: without model and stream.
            accept: what is wrong with a reply; None: nothing.
        Raises:
            Failed: refused for good, or not answered at the last try.
        """
        retries: list[str] = []
        for number in range(1, self.tries + 1):
            try:
                reply = self._runner.run(self._once(body, tuple(retries)))
                fault = accept(reply)
                if fault is None:
                    return reply
                raise Refused("garbage", fault)
            except Refused as error:
                reason = f"{error.kind}: {' '.join(error.detail.split())}" if error.detail else error.kind
                if number == self.tries or not _AGAIN.fullmatch(error.kind):
                    raise Failed(reason, tuple(retries)) from None
                retries.append(reason)
                pause = 2.0 ** (number - 2) if error.retry_after_s is None else error.retry_after_s
                self.sleep(min(pause, LONGEST_WAIT_S))
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        """Let go of the connection."""
        if self.http is not None:
            self._runner.run(self.http.aclose())
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _once(self, body: dict[str, Any], retries: tuple[str, ...]) -> Reply:
        if self.http is None:
            self.http = connect(self.target)
        sender = Sender(self.http, self.target.surface, self.clock, self.timeout_s)
        whole = {"model": self.model, "stream": True, "stream_options": {"include_usage": True}, **body}
        reading, sent = Reading(), self.clock()
        try:
            async with asyncio.timeout(self.timeout_s):
                await sender.follow(Ask(index=0, body=whole), reading)
        except TimeoutError:
            raise Refused("timeout", f"not answered within {self.timeout_s:g} s") from None
        if not reading.texts:
            raise Refused("garbage", "a stream without any choice")
        end = reading.times or [self.clock()]
        return Reply("".join(reading.texts), reading.usage, end[0] - sent, end[-1] - sent, retries)
