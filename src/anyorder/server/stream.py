"""The frames of a stream: text, snapshots or typed events, one kind per stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic_core import to_json

from anyorder.channels.parts import CallBegun
from anyorder.events import Decided, Finished, Remasked
from anyorder.seams import Seam
from anyorder.server.choice import Choice, Step, run
from anyorder.server.errors import as_api_error
from anyorder.server.streams.answer import Delta
from anyorder.server.streams.snapshots import progress, snapshot
from anyorder.server.streams.typed import typed
from anyorder.server.usage import usage
from anyorder.server.wire.common import StreamFormat
from anyorder.serving import Ticket

DONE = b"data: [DONE]\n\n"


class Voice(Protocol):
    """How a surface words its answers."""

    def reply(self, choices: Sequence[Choice], usage: dict[str, Any]) -> dict[str, Any]: ...
    def chunk(self, choice: Choice, delta: Delta, *, opens: bool) -> dict[str, Any]: ...
    def snapshot(self, choice: Choice, text: str, progress: float, delta: Delta) -> dict[str, Any]: ...
    def last_chunk(self, usage: dict[str, Any]) -> dict[str, Any]: ...


def frame(data: dict[str, Any], event: str | None = None) -> bytes:
    """One server-sent event."""
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + to_json(data) + b"\n\n"


@dataclass
class Frames:
    """Turns what happens to the answers into frames."""

    voice: Voice
    format: StreamFormat
    includes_usage: bool
    opened: set[int] = field(default_factory=set[int])
    progress: dict[int, float] = field(default_factory=dict[int, float])

    async def of(self, choices: Sequence[Choice], failed: Callable[[Exception], None]) -> AsyncGenerator[bytes]:
        """All frames; a failure is told as the last one, and nothing is done behind it.

        Args:
            failed: told of it, for the log.
        """
        try:
            async with aclosing(run(choices)) as steps:
                async for step in steps:
                    for data in self._frames(step):
                        yield data
            for choice in choices:
                if choice.seams is not None:
                    async for data in _seams(choice, await choice.seams(choice)):
                        yield data
            if self.includes_usage:
                yield frame(self.voice.last_chunk(usage(choices)))
            yield DONE
        except Exception as error:
            failed(error)
            yield frame(as_api_error(error).as_dict())

    def _frames(self, step: Step) -> list[bytes]:
        choice, event, delta = step
        if self.format == "events":
            data = typed(choice.answer, choice.index, event, delta)
            stopped = choice.answer.stopped and not isinstance(event, Finished)
            return [frame(data, data["type"]), *([_stopped(choice)] if stopped else [])]
        if self.format == "snapshots":
            calls = any(isinstance(part, CallBegun) for part in delta.parts)  # those of a block that is settled now
            shows = isinstance(event, Decided | Remasked) or calls or delta.finish_reason
            return [self._framed(self._snapshot(choice, delta))] if shows else []
        if not (delta.parts or delta.tokens or delta.finish_reason):  # a control token has no text
            return []
        return [self._framed(self._chunk(choice, piece)) for piece in delta.pieces()]

    def _chunk(self, choice: Choice, piece: Delta) -> dict[str, Any]:
        opens = choice.index not in self.opened
        self.opened.add(choice.index)
        return self.voice.chunk(choice, piece, opens=opens)

    def _snapshot(self, choice: Choice, delta: Delta) -> dict[str, Any]:
        wanted = choice.ticket.params.max_new_tokens
        now = max(progress(choice.answer, wanted), self.progress.get(choice.index, 0.0))
        self.progress[choice.index] = now
        return self.voice.snapshot(choice, snapshot(choice.answer), now, delta)

    def _framed(self, data: dict[str, Any]) -> bytes:
        return frame({**data, "usage": None} if self.includes_usage else data)


async def _seams(choice: Choice, ticket: Ticket) -> AsyncGenerator[bytes]:
    """A frame for every pass of an answer that committed several slots."""
    try:
        async for event in ticket:
            if isinstance(event, Seam):
                data = event.as_dict()
                yield frame({"type": data["type"], "index": choice.index, **event.gap.as_dict()}, data["type"])
    finally:
        ticket.cancel()


def _stopped(choice: Choice) -> bytes:
    """The end of an answer that a stop string ended: the engine sends none."""
    answer = choice.answer
    data = {"type": "finished", "index": choice.index, "finish_reason": answer.finish_reason, "passes": answer.passes}
    return frame({**data, "positions": choice.computed.positions, "text_delta": ""}, "finished")
