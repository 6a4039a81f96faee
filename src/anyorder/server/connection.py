"""The client's end of the line: noticed when it goes, waited for when it is slow, but not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")
PING = b": ping\n\n"


class ClientGone(Exception):
    """The client closed the connection before its answer was complete."""


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client goes.

    Args:
        receive: of a request whose body has been read.
    Raises:
        ClientGone: it went.
    """
    wanted, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((wanted, gone), return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise ClientGone
        return wanted.result()
    finally:
        wanted.cancel()
        gone.cancel()
        await asyncio.gather(wanted, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def with_pings(frames: AsyncGenerator[bytes], every_s: float) -> AsyncGenerator[bytes]:
    """The frames, and a comment whenever none came for `every_s`; the generator is closed in any case."""
    async with aclosing(frames):
        following: asyncio.Future[bytes | None] | None = None
        try:
            while True:
                if following is None:
                    following = asyncio.ensure_future(anext(frames, None))
                if not (await asyncio.wait((following,), timeout=every_s))[0]:
                    yield PING
                    continue
                frame, following = following.result(), None
                if frame is None:
                    return
                yield frame
        finally:
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)


class EventStream(Response):
    """Server-sent events; the generator is closed whatever happens to the connection.

    Args:
        frames: the bytes of the events.
        timeout_s: how long the client may take to read one of them.
        ping_s: seconds without an event after which a comment is sent.
    """

    media_type = "text/event-stream"

    def __init__(
        self, frames: AsyncGenerator[bytes], *, timeout_s: float, ping_s: float, headers: Mapping[str, str]
    ) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no", **headers})
        del self.headers["content-length"]
        self.frames = frames
        self.timeout_s = timeout_s
        self.ping_s = ping_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(receive, self._send(send))
        except (ClientGone, TimeoutError, OSError):
            return  # nobody reads an error any more

    async def _send(self, send: Send) -> None:
        async with aclosing(with_pings(self.frames, self.ping_s)) as frames:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for frame in frames:
                async with asyncio.timeout(self.timeout_s):
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
