"""An application on a socket, until a signal says to stop."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn

from anyorder.params import DecodeParams
from anyorder.server.app import make_app
from anyorder.server.protocol import Config
from anyorder.server.settings import ServerSettings
from anyorder.serving import Service


class Server(uvicorn.Server):
    """A server that SIGTERM and SIGINT end gracefully: no new connections, time for what runs, and a normal return.

    A second SIGINT ends it at once.
    """

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # signals are the main thread's
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def make_server(
    service: Service, settings: ServerSettings, defaults: DecodeParams | None = None, *, on_death: Callable[[], None]
) -> Server:
    """A server that is not running yet; running answers get `drain_s` to end when it is told to stop.

    Args:
        on_death: called if the engine dies; the server ends then, too.
    """

    def died() -> None:
        on_death()
        server.should_exit = True

    server = Server(Config(make_app(service, settings, defaults, on_death=died), settings))
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
