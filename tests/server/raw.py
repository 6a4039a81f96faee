"""HTTP by hand, for what no client would send."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any

from tests.server.live import Live


@dataclass(frozen=True)
class Reply:
    """One answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str | None:
        """Of its error, which must be one in OpenAI's shape."""
        error = json.loads(self.body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert self.headers["content-type"].startswith("application/json")
        assert b"Traceback" not in self.body
        assert len(self.body) < 8192
        return error["code"]


def connect(server: Live) -> socket.socket:
    """A connection to a server."""
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=20)


def head(**headers: Any) -> bytes:
    """The head of a chat, some of it changed; `...` leaves a header out."""
    fields = {"host": "localhost", "content-type": "application/json", **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items() if value is not ...]
    return "\r\n".join(["POST /v1/chat/completions HTTP/1.1", *lines, "", ""]).encode("utf-8")


def chat(server: Live, **changes: Any) -> bytes:
    """The body of a chat."""
    message = {"role": "user", "content": "7 8"}
    return json.dumps({"model": server.model, "messages": [message], "max_tokens": 6, **changes}).encode()


def until_closed(connection: socket.socket) -> bytes:
    """All that the server still sends; it must close the connection."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass  # it closed while we were still sending
    return received


def replies(received: bytes) -> list[Reply]:
    """The answers in what was received: each with a length, or chunked."""
    found: list[Reply] = []
    while received:
        top, _, received = received.partition(b"\r\n\r\n")
        first, *lines = top.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        if "content-length" in headers:
            length = int(headers["content-length"])
            body, received = received[:length], received[length:]
        else:
            body, received = received, b""
        if not first.startswith("HTTP/1.1 100"):
            found.append(Reply(int(first.split()[1]), headers, body))
    return found


def sent(server: Live, *parts: bytes, half_close: bool = False) -> list[Reply]:
    """What comes back for these bytes."""
    with connect(server) as connection:
        try:
            for part in parts:
                connection.sendall(part)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before the end
        return replies(until_closed(connection))
