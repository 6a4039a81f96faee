"""In front of every endpoint: a request id, the key and its limits, the host."""

from __future__ import annotations

import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyorder.server.errors import ApiError
from anyorder.server.limiter import Lease
from anyorder.server.quota import Accounts, limit_headers
from anyorder.server.settings import LOOPBACK, ServerSettings
from anyorder.server.turned_away import TurnedAway

HEAD_BYTES = 64 << 10
"""Longest head of a request."""
HEADERS = 100
"""Most headers of a request."""
OPEN_PATHS = ("/health", "/ready")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Gate:
    """Lets a request through, named and authenticated, or answers it at once.

    A server that only this machine can reach takes requests that name this machine as their host only, so that a web
    page cannot reach it under a name of its own.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, turned_away: TurnedAway) -> None:
        self.app = app
        self.turned_away = turned_away
        self.settings = settings
        self.accounts = Accounts(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        name = given if _REQUEST_ID.fullmatch(given) else f"req-{uuid.uuid4().hex}"
        state = scope.setdefault("state", {})
        state["request_id"] = name

        lease: Lease | None = None

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                limits = limit_headers(lease.account) if lease is not None and scope["method"] == "POST" else {}
                MutableHeaders(scope=message).update({"x-request-id": name, **limits})
            await send(message)

        try:
            _check_head(headers)
            self._check_host(headers)
            if scope["path"] not in OPEN_PATHS and scope["method"] != "OPTIONS":
                lease = state["api_key"] = self.accounts.lease(headers.getlist("authorization"))
        except ApiError as error:
            self.turned_away(error, name)
            await error.response()(scope, receive, named)
            return
        try:
            await self.app(scope, receive, named)
        finally:  # also when the client went, or the endpoint failed
            if lease is not None:
                lease.close()

    def _check_host(self, headers: Headers) -> None:
        if not self.settings.is_local:
            return
        host = headers.get("host", "")
        name = host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]
        if name and name not in LOOPBACK:
            raise ApiError(421, f"this server is {self.settings.host}, not {name[:200]!r}", code="wrong_host")


def _check_head(headers: Headers) -> None:
    """The protocol bounds what it waits for; what comes in one piece is measured here."""
    size = sum(len(name) + len(value) + 4 for name, value in headers.raw)
    if len(headers.raw) > HEADERS or size > HEAD_BYTES:
        message = f"the request has {len(headers.raw)} headers of {size} bytes; it may have {HEADERS} of {HEAD_BYTES}"
        raise ApiError(431, message, code="head_too_large")
