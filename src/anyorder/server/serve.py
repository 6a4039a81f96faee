"""An application on a socket, until a signal says to stop."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn
from uvicorn.server import Server

from anyorder.params import DecodeParams
from anyorder.server.app import make_app
from anyorder.server.settings import ServerSettings
from anyorder.serving import Service


def make_server(
    service: Service, settings: ServerSettings, defaults: DecodeParams | None = None, *, on_death: Callable[[], None]
) -> Server:
    """A server that is not running yet.

    SIGTERM and SIGINT end it gracefully: no new connections, `drain_s` for what runs, then the end.

    Args:
        on_death: called if the engine dies; the server ends then, too.
    """

    def died() -> None:
        on_death()
        server.should_exit = True

    server = Server(
        uvicorn.Config(
            make_app(service, settings, defaults, on_death=died),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_keep_alive=5,
            timeout_graceful_shutdown=max(int(settings.drain_s), 1),
            limit_concurrency=settings.max_connections,
            h11_max_incomplete_event_size=64 << 10,
            http="h11",
            ws="none",
        )
    )
    return server


def listen(settings: ServerSettings) -> socket.socket:
    """A bound socket; its port is the real one where the settings leave it open.

    Raises:
        OSError: the address is in use or not there.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, error.strerror, f"{settings.host}:{settings.port}") from None
    return bound
