"""Connections that keep to HTTP and to their time, and are told in JSON when they do not."""

from __future__ import annotations

import asyncio
import sys
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from pydantic_core import to_json
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from anyorder.server.errors import ApiError
from anyorder.server.gate import HEAD_BYTES
from anyorder.server.settings import ServerSettings
from anyorder.server.turned_away import TurnedAway


class Config(uvicorn.Config):
    """How connections are served, with the limits that `Protocol` keeps."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, turned_away: TurnedAway) -> None:
        super().__init__(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_keep_alive=5,
            timeout_graceful_shutdown=max(int(settings.drain_s), 1),
            h11_max_incomplete_event_size=HEAD_BYTES,
            http=Protocol,
            ws="none",
        )
        self.settings = settings
        self.turned_away = turned_away


class Protocol(H11Protocol):
    """One connection. It is closed if there are too many, or if the head of a request does not come in time."""

    def __init__(self, config: uvicorn.Config, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        assert isinstance(config, Config)
        self.settings = config.settings
        self.turned_away = config.turned_away
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        most = self.settings.max_connections
        if len(self.connections) > most:
            message = f"{most} connections are open, and no more may be; try again later"
            self._refuse(ApiError(503, message, "overloaded_error", code="overloaded", headers={"retry-after": "1"}))
        else:
            self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; called while the reason is being handled."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        code = "head_too_large" if status == 431 else "invalid_http"
        message = f"this is not HTTP as it should be: {str(error or msg)[:200]}"
        self._refuse(ApiError(status, message, code=code))

    def _watch_head(self) -> None:
        """The clock runs from a connection's begin, and from the first byte of each further request, to its head."""
        is_first = self.cycle is None  # pyright: ignore[reportUnnecessaryComparison]
        waits = self.conn.their_state is h11.IDLE and (is_first or bool(self.conn.trailing_data[0]))
        if not waits or self.transport.is_closing():
            self._stop_watching()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.settings.header_timeout_s, self._too_slow)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if not self.conn.trailing_data[0]:
            self.transport.close()  # connected and said nothing
            return
        message = f"the head of the request did not come within {self.settings.header_timeout_s:g} s"
        self._refuse(ApiError(408, message, "timeout_error", code="header_timeout"))

    def _refuse(self, error: ApiError) -> None:
        """Say why, if an answer can still begin, and hang up."""
        self.turned_away(error)
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = to_json(error.as_dict())
            headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
            reason = HTTPStatus(error.status).phrase
            start = h11.Response(
                status_code=error.status, headers=list({**headers, **error.headers}.items()), reason=reason
            )
            events = (start, h11.Data(data=body), h11.EndOfMessage())
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()
