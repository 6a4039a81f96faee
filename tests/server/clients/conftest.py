"""Servers for clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.server.channels.speaking import speaking
from tests.server.channels.test_chat_channels import ROOM, SAID
from tests.server.live import Live, live


@pytest.fixture(scope="session")
def caller() -> Iterator[Live]:
    """A server whose model thinks, speaks and calls."""
    with live(speaking(SAID), engine=ROOM) as server:
        yield server
