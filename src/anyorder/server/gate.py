"""In front of every endpoint: a request id, the key, the host."""

from __future__ import annotations

import hashlib
import hmac
import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyorder.server.errors import ApiError
from anyorder.server.settings import LOOPBACK, ServerSettings

OPEN_PATHS = ("/health", "/ready")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Gate:
    """Lets a request through, named and authenticated, or answers it at once.

    A server that only this machine can reach takes requests that name this machine as their host only, so that a web
    page cannot reach it under a name of its own.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app = app
        self.settings = settings
        self.digests = [_digest(key) for key in settings.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        name = given if _REQUEST_ID.fullmatch(given) else f"req-{uuid.uuid4().hex}"
        state = scope.setdefault("state", {})
        state["request_id"] = name

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = name
            await send(message)

        try:
            self._check_host(headers)
            if scope["path"] not in OPEN_PATHS and scope["method"] != "OPTIONS":
                state["api_key"] = self._checked_key(headers)
        except ApiError as error:
            await error.response()(scope, receive, named)
            return
        await self.app(scope, receive, named)

    def _check_host(self, headers: Headers) -> None:
        if not self.settings.is_local:
            return
        host = headers.get("host", "")
        name = host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]
        if name and name not in LOOPBACK:
            raise ApiError(421, f"this server is {self.settings.host}, not {name[:200]!r}", code="wrong_host")

    def _checked_key(self, headers: Headers) -> str | None:
        """The client's key; all keys are compared, so that time does not tell which one was nearly right."""
        if not self.digests:
            return None
        given = headers.getlist("authorization")
        scheme, _, key = (given[0] if len(given) == 1 else "").partition(" ")
        digest = _digest(key.strip())
        known = [hmac.compare_digest(digest, other) for other in self.digests]
        if scheme.lower() != "bearer" or not any(known):
            message = "the API key is missing or wrong; send it as `Authorization: Bearer KEY`"
            raise ApiError(
                401, message, "authentication_error", code="invalid_api_key", headers={"www-authenticate": "Bearer"}
            )
        return key.strip()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
