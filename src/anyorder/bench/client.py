"""One streamed request, timed. Failures are records like answers; their kinds:

- `connect`: no connection, or it broke before the answer began
- `http_503` and so on: refused, with this status
- `stream_error`: the server said in the stream that the answer failed
- `broken`: the stream ended before its last chunk
- `garbage`: what came is no stream of JSON objects
- `timeout`: not answered within the time
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anyorder.bench.prompts import Ask, Surface
from anyorder.bench.records import Record
from anyorder.errors import MissingExtra, Unavailable

if TYPE_CHECKING:
    import httpx2

_DETAIL = 300  # characters of an error that are kept
PATHS: dict[Surface, str] = {"chat": "/chat/completions", "completions": "/completions"}


@dataclass(frozen=True, kw_only=True)
class Target:
    """A server."""

    url: str
    """With the `/v1/`."""
    key: str | None = None
    surface: Surface = "chat"


def connect(target: Target) -> httpx2.AsyncClient:
    """A client of a server, without limits: a request has one limit, for all of it.

    Raises:
        MissingExtra: httpx2 is not installed.
    """
    try:
        from httpx2 import AsyncClient, Limits, Timeout
    except ImportError:
        raise MissingExtra("anyorder bench serve needs httpx2: pip install 'anyorder[bench]'") from None
    return AsyncClient(
        base_url=target.url,
        headers={"authorization": f"Bearer {target.key}"} if target.key else {},
        timeout=Timeout(None),
        limits=Limits(max_connections=None, max_keepalive_connections=None),
        trust_env=False,
    )


class Failed(Exception):
    """A request without an answer: its kind, what the server said, and when it wants to be asked again, in seconds."""

    def __init__(self, kind: str, detail: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.detail = detail[:_DETAIL]
        self.retry_after_s = retry_after_s


@dataclass
class Sender:
    """Sends requests to one server.

    Args:
        http: a client whose base URL ends in `/v1`.
        clock: seconds; what it says when the run begins is `began`.
        keep_text: records hold the text of the answer, piece by piece.
    """

    http: httpx2.AsyncClient
    surface: Surface
    clock: Callable[[], float]
    timeout_s: float
    keep_text: bool = False
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    async def send(self, ask: Ask, *, due: float, load: str, session: int) -> Record:
        """Send a request and follow it to its end.

        Args:
            due: on the clock; its times count from there.
        """
        reading = Reading()
        sent = self.clock()
        failure: Failed | None = None
        try:
            async with asyncio.timeout(self.timeout_s):
                await self.follow(ask, reading)
        except TimeoutError:
            failure = Failed("timeout", f"not answered within {self.timeout_s:g} s")
        except Failed as error:
            failure = error
        end = self.clock()
        times = reading.times
        return Record(
            load=load,
            index=ask.index,
            session=session,
            due_s=due - self.began,
            sent_s=sent - self.began,
            first_s=times[0] - due if times else None,
            last_s=(times[-1] if times and failure is None else end) - due,
            gaps_s=[after - before for before, after in pairwise(times)],
            pieces=reading.pieces if self.keep_text else (),
            snapshots=reading.snapshots,
            error=failure.kind if failure else None,
            detail=failure.detail if failure else "",
            finish_reason=reading.finish_reason,
            **usage_figures(reading.usage),
        )

    async def follow(self, ask: Ask, reading: Reading) -> None:
        """Send a request and let `reading` take its stream, to its end.

        Raises:
            Failed: it was not answered, or not to its end.
        """
        import httpx2

        try:
            async with self.http.stream("POST", PATHS[self.surface].lstrip("/"), json=ask.body) as response:
                if response.status_code != 200:
                    told = _told(await response.aread())
                    raise Failed(f"http_{response.status_code}", told, _seconds(response.headers.get("retry-after")))
                async for line in response.aiter_lines():
                    reading.line(line, self.clock)
        except httpx2.HTTPError as error:
            raise Failed("broken" if reading.begun else "connect", f"{type(error).__name__}: {error}") from None
        if not reading.done:
            raise Failed("broken", "the stream ended without [DONE]")


@dataclass
class Reading:
    """What a stream has said so far."""

    times: list[float] = field(default_factory=list[float])
    """Of the pieces of its text."""
    texts: list[str] = field(default_factory=list[str])
    """The pieces of the answer itself, without reasoning."""
    pieces: list[str] = field(default_factory=list[str])
    """What came at each of `times`; "" for reasoning and tool calls."""
    snapshots: bool = False
    """Pieces stand in place of the ones before (`diffusion_meta`), where others go behind them."""
    finish_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    begun: bool = False
    done: bool = False

    def line(self, line: str, clock: Callable[[], float]) -> None:
        """Take one line of the event stream.

        Raises:
            Failed: it says that the answer failed, or is no JSON.
        """
        if not line.startswith("data:"):
            return  # comments, names of events, the blank line behind an event
        data = line.removeprefix("data:").strip()
        self.begun = True
        if data == "[DONE]":
            self.done = True
            return
        try:
            chunk = json.loads(data)
        except ValueError:
            raise Failed("garbage", data) from None
        if not isinstance(chunk, dict):
            raise Failed("garbage", data)
        try:
            self._chunk(chunk, clock)
        except (AttributeError, TypeError):  # not the kinds of values that belong there
            raise Failed("garbage", data) from None

    def _chunk(self, chunk: dict[str, Any], clock: Callable[[], float]) -> None:
        if chunk.get("error"):
            raise Failed("stream_error", _said(chunk["error"]))
        self.usage = chunk.get("usage") or self.usage
        self.snapshots = self.snapshots or bool(chunk.get("diffusion_meta"))
        for choice in chunk.get("choices") or ():
            text = text_of(choice)
            if has_text(choice):
                self.times.append(clock())
                self.pieces.append(text)
            self.texts.append(text)
            self.finish_reason = choice.get("finish_reason") or self.finish_reason


def has_text(choice: dict[str, Any]) -> bool:
    """True if a chunk's choice brings something to read: text, reasoning, or a part of a tool call. A role is none."""
    delta = choice.get("delta") or choice
    return any(delta.get(name) for name in ("content", "text", "reasoning_content", "reasoning", "tool_calls"))


def text_of(choice: dict[str, Any]) -> str:
    """What a chunk's choice adds to the answer; "" for reasoning, tool calls and roles."""
    delta = choice.get("delta") or choice
    return "" + (delta.get("content") or delta.get("text") or "")


def usage_figures(usage: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record that a `usage` object fills; what is missing is None."""
    diffusion = usage.get("diffusion") or {}
    details = usage.get("prompt_tokens_details") or {}
    return {
        "prompt_tokens": usage.get("prompt_tokens"),
        "cached_tokens": details.get("cached_tokens"),
        "tokens": usage.get("completion_tokens"),
        **{name: diffusion.get(name) for name in ("tokens_per_forward", "passes", "positions", "unused_share")},
    }


def _told(body: bytes) -> str:
    """The message of an error's body."""
    try:
        return _said(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")


def _seconds(header: str | None) -> float | None:
    """Of a header retry-after; one with a date is not read."""
    try:
        return max(0.0, float(header or ""))
    except ValueError:
        return None


def _said(error: Any) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


async def model_name(target: Target) -> str:
    """The first model that a server lists.

    Raises:
        Unavailable: it does not answer, or lists none.
    """
    import httpx2

    async with connect(target) as http:
        try:
            answer = await http.get("models")
        except httpx2.HTTPError as error:
            raise unavailable(target, Failed("connect", f"{type(error).__name__}: {error}")) from None
    if answer.status_code != 200:
        raise unavailable(target, Failed(f"http_{answer.status_code}", _told(answer.content)))
    try:
        return str(answer.json()["data"][0]["id"])
    except (ValueError, LookupError, TypeError):
        raise unavailable(target, Failed("garbage", "it lists no model; name one with --model")) from None


def unavailable(target: Target, failure: Failed) -> Unavailable:
    """The error for a server that does not answer at all."""
    return Unavailable(f"{target.url} does not answer ({failure.kind}): {failure.detail}")
