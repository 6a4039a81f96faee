"""What all endpoints share: failures become answers, answers become JSON or a stream, and both are recorded."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from anyorder.errors import AnyorderError
from anyorder.server.backend import Backend
from anyorder.server.choice import Choice, collect
from anyorder.server.connection import ClientGone, EventStream, while_connected
from anyorder.server.errors import as_api_error
from anyorder.server.limiter import Lease
from anyorder.server.stream import Frames, Voice
from anyorder.server.usage import usage
from anyorder.server.wire.common import Common

log = logging.getLogger("anyorder.server")
GONE = 499  # the status, in logs and metrics, of an answer that nobody waited for

Endpoint = Callable[[Request], Awaitable[Response]]


def backend_of(request: Request) -> Backend:
    """The backend of the application."""
    return request.app.state.backend


def lease_of(request: Request) -> Lease:
    """The claim of the client's key."""
    return request.scope["state"]["api_key"]


def request_id(request: Request) -> str:
    """The id that names the request in logs."""
    return request.scope.get("state", {}).get("request_id", "")


class Streamed(Protocol):
    """How a surface streams answers: see `Frames`."""

    def of(self, choices: Sequence[Choice], failed: Callable[[Exception], None]) -> AsyncGenerator[bytes]: ...


@dataclass
class Record:
    """One line of the log and one entry of the metrics, written once."""

    request: Request
    surface: str
    choices: Sequence[Choice] = ()
    began: float = field(default_factory=time.monotonic)
    written: bool = False

    def write(self, status: int, error: Exception | None = None) -> None:
        """Say how the request ended. Neither prompt nor answer is in it."""
        if self.written:
            return
        self.written = True
        backend = backend_of(self.request)
        refusal = None if error is None else as_api_error(error)
        code = refusal.code if refusal else None
        counted = usage(self.choices) if self.choices else None
        backend.metrics.ended(self.surface, status, code)
        backend.metrics.add(self.choices)
        if backend.traces is not None:
            backend.traces.add(self, model=backend.name, status=status, code=code, counted=counted)
        line: dict[str, Any] = {"request_id": request_id(self.request), "surface": self.surface, "status": status}
        if client := lease_of(self.request).account.name:
            line["client"] = client
        line["seconds"] = round(time.monotonic() - self.began, 4)
        if counted is not None:
            lease_of(self.request).settle(counted["total_tokens"])
            line |= {name: counted[name] for name in ("prompt_tokens", "completion_tokens", "cached_input_tokens")}
            line["passes"] = counted["diffusion"]["passes"]
            line["finish_reasons"] = [choice.answer.finish_reason for choice in self.choices]
            line["queued_s"] = [choice.ticket.timing.queued_s for choice in self.choices]
        if error is not None:
            line["error"] = code
        unexpected = error is not None and not isinstance(error, AnyorderError) and status >= 500
        log.log(
            logging.ERROR if status >= 500 else logging.INFO, json.dumps(line), exc_info=error if unexpected else None
        )


def endpoint(surface: str) -> Callable[[Callable[[Request, Record], Awaitable[Response]]], Endpoint]:
    """A decorator: whatever the function raises is answered in the OpenAI shape."""

    def decorate(function: Callable[[Request, Record], Awaitable[Response]]) -> Endpoint:
        @wraps(function)
        async def answer(request: Request) -> Response:
            record = Record(request, surface)
            try:
                if request.method == "POST":  # looking costs nothing
                    lease_of(request).begin()
                response = await function(request, record)
            except ClientGone:
                record.write(GONE)
                return Response(status_code=GONE)
            except Exception as error:
                refusal = as_api_error(error)
                record.write(refusal.status, error)
                return refusal.response()
            if not isinstance(response, EventStream):  # a stream is recorded at its end
                record.write(response.status_code)
            return response

        return answer

    return decorate


Reply = Callable[[Sequence[Choice], dict[str, Any]], dict[str, Any]]
"""Finished answers and their usage -> the JSON of a surface."""


async def respond(record: Record, wire: Common, voice: Voice, choices: Sequence[Choice]) -> Response:
    """The answers, whole or as they come."""
    if wire.format is None:
        return await whole(record, voice.reply, choices)
    return streaming(record, Frames(voice, wire.format, wire.includes_usage), choices)


async def whole(record: Record, reply: Reply, choices: Sequence[Choice]) -> Response:
    """The answers as one JSON object, when all are finished."""
    record.choices = choices
    await while_connected(record.request.receive, collect(choices))
    return JSONResponse(reply(choices, usage(choices)))


def streaming(record: Record, streamed: Streamed, choices: Sequence[Choice]) -> Response:
    """The answers as they come."""
    record.choices = choices
    settings = backend_of(record.request).settings
    frames = _recorded(streamed, choices, record)
    return EventStream(frames, timeout_s=settings.write_timeout_s, ping_s=settings.ping_s, headers={})


async def _recorded(frames: Streamed, choices: Sequence[Choice], record: Record) -> AsyncGenerator[bytes]:
    """The frames; how the stream ended is recorded before its last one, or when the client goes."""
    failure: list[Exception] = []
    try:
        async with aclosing(frames.of(choices, failure.append)) as made:
            async for frame in made:
                yield frame
    finally:
        ended = all(choice.answer.finish_reason for choice in choices)
        status = as_api_error(failure[0]).status if failure else 200 if ended else GONE
        record.write(status, failure[0] if failure else None)
