"""What every test stands on: no network, no hub, repeatable hypothesis."""

from __future__ import annotations

import os
import signal
import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models: threads only wait for each other
os.environ["HF_HUB_OFFLINE"] = "1"  # before huggingface_hub is imported: it reads this once
os.environ.pop("ANYORDER_DEBUG", None)
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background may ignore it

settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that reaches for another machine fails at once instead of waiting."""
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1"):
            raise RuntimeError(f"a test opened a connection to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)
