"""What is streamed is sent at once."""

from __future__ import annotations

import asyncio
import socket

import pytest

from anyorder.server.serve import listen
from anyorder.server.settings import ServerSettings


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_pieces_do_not_wait_for_each_other(host: str) -> None:
    """Or on a connection that is used again the first text waits until the client has acknowledged the head."""
    try:
        bound = listen(ServerSettings(host=host, port=0))
    except OSError:
        pytest.skip(f"this machine has no {host}")

    async def sends_at_once() -> int:
        told: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted = writer.get_extra_info("socket")
            told.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(connected, sock=bound):
            _, writer = await asyncio.open_connection(*bound.getsockname()[:2])
            found = await told
            writer.close()
            await writer.wait_closed()
        return found

    assert asyncio.run(sends_at_once()) != 0
