"""An application on a socket, until a signal says to stop."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from anyio import to_thread

from anyorder.params import DecodeParams
from anyorder.server.app import make_app
from anyorder.server.protocol import Config
from anyorder.server.settings import ServerSettings
from anyorder.server.turned_away import TurnedAway
from anyorder.serving import Service


class Server(uvicorn.Server):
    """A server that SIGTERM and SIGINT end gracefully, with a normal return.

    At the first signal it takes no new requests, says so (`/ready`, 503), and lets those that run end, for `drain_s`.
    At the second one, or when the time is over, those that still run fail. A third one cuts them off.
    """

    def __init__(self, config: Config, service: Service) -> None:
        super().__init__(config)
        self.service = service
        self.drain_s = config.settings.drain_s
        self.signals = 0
        self.drained_by: float | None = None
        self.stopping = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Only note it: what has to be done waits for the next tick."""
        self.signals += 1
        if self.signals > 2:
            self.should_exit = self.force_exit = True

    async def on_tick(self, counter: int) -> bool:
        if self.signals and not self.should_exit:
            await self._drain()
        return await super().on_tick(counter)

    async def _drain(self) -> None:
        if self.drained_by is None:
            self.drained_by = time.monotonic() + self.drain_s
        is_idle = self.service.drain(0)
        if not is_idle and self.signals == 1 and time.monotonic() < self.drained_by:
            return
        self.stopping = True
        await to_thread.run_sync(self.service.stop)  # the rest is told so, and its connections end by themselves
        self.should_exit = True

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
        if not server.stopping:  # an engine that was told to stop is not alive either
            on_death()
        server.should_exit = True

    app = make_app(service, settings, defaults, on_death=died)
    server = Server(Config(app, settings, TurnedAway(app.state.backend.metrics)), service)
    return server


def listen(settings: ServerSettings) -> socket.socket:
    """A bound socket; its port is the real one where the settings leave it open.

    Raises:
        OSError: the address is in use or not there.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With its protocol named, asyncio sends at once what is written; else each answer waits for an ACK, for some 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, error.strerror, f"{settings.host}:{settings.port}") from None
    return bound
