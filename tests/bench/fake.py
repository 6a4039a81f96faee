"""A server that says what it is told to, on a clock that only its answers move."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from anyorder.bench.client import Sender

Line = tuple[float, Any]
"""Seconds before it comes, and what: a dict is sent as a chunk, a text as it is."""


@dataclass(frozen=True)
class Refusal:
    status: int
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])


def text(content: str, **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": content}, **choice}]}


def answer(*delays: float, tokens: int = 3, **diffusion: Any) -> list[Line]:
    """A piece of text behind each delay, then usage and [DONE]."""
    usage = {"prompt_tokens": 10, "completion_tokens": tokens, "prompt_tokens_details": {"cached_tokens": 4}}
    return [
        *((delay, text("a")) for delay in delays),
        (0.0, text("", finish_reason="stop")),
        (0.0, {"choices": [], "usage": {**usage, "diffusion": diffusion} if diffusion else usage}),
        (0.0, "data: [DONE]\n\n"),
    ]


@dataclass
class Fake:
    """Answers the n-th request with the n-th script, and remembers what it was asked."""

    scripts: Callable[[dict[str, Any]], Sequence[Line] | Refusal]
    now: float = 100.0
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def clock(self) -> float:
        return self.now

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url="http://fake/v1/", transport=httpx2.MockTransport(self._handle))

    def sender(self, timeout_s: float = 60.0) -> Sender:
        return Sender(self.client(), "chat", self.clock, timeout_s)

    def _handle(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        script = self.scripts(body)
        if isinstance(script, Refusal):
            return httpx2.Response(script.status, text=script.text, headers=script.headers)
        return httpx2.Response(200, stream=_Lines(self, script))


@dataclass
class _Lines(httpx2.AsyncByteStream):
    fake: Fake
    script: Sequence[Line]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for delay, data in self.script:
            await asyncio.sleep(0)
            self.fake.now += delay
            if isinstance(data, Exception):
                raise data
            yield (data if isinstance(data, str) else f"data: {json.dumps(data)}\n\n").encode()
