"""A server in this process, beside whatever else it does: for notebooks and tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anyorder.errors import Unavailable
from anyorder.params import DecodeParams
from anyorder.server.serve import listen, make_server
from anyorder.server.settings import ServerSettings
from anyorder.serving import Service, ServiceSettings

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel


@dataclass(frozen=True)
class Running:
    """A server that listens."""

    url: str
    """Without the `/v1` of the endpoints."""
    service: Service


@contextmanager
def serving(
    model: LoadedModel,
    settings: ServerSettings | None = None,
    engine: ServiceSettings | None = None,
    defaults: DecodeParams | None = None,
) -> Generator[Running]:
    """Serve a model for the length of a `with` block, on a free port of this machine.

    Args:
        settings: its host and port do not matter.
        engine: memory and limits.
        defaults: what requests leave out.
    Raises:
        ModelError: the model has no tokenizer.
        Unavailable: the server did not start, or did not end within `drain_s`.
    """
    settings = replace(settings or ServerSettings(), host="127.0.0.1", port=0)
    service = Service(model, engine or ServiceSettings())
    server = make_server(service, settings, defaults, on_death=lambda: None)
    with listen(settings) as socket:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, name="anyorder-server", daemon=True)
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.005)
            if not server.started:
                raise Unavailable("the server did not start; the log has the cause")
            yield Running(f"http://127.0.0.1:{socket.getsockname()[1]}", service)
        finally:
            server.should_exit = True
            thread.join(settings.drain_s + 10)
    if thread.is_alive():
        raise Unavailable("the server has not ended yet: the running pass takes very long")
