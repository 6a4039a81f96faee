"""What broken, slow and hostile clients send: answered as it should be, and nobody else notices."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from typing import Any

import pytest
from tests.cli.scripted import scripted_model
from tests.server.live import Live, live
from tests.server.raw import chat, connect, head, replies, sent, until_closed
from tests.server.test_operations import MESSAGES, eventually, figures

from anyorder.models.loaded import LoadedModel
from anyorder.server import background
from anyorder.server.serve import listen
from anyorder.server.settings import ServerSettings

HASTY = ServerSettings(header_timeout_s=0.3, body_timeout_s=0.3, max_connections=20, max_body_bytes=100_000)


@pytest.fixture(scope="module")
def hasty(number_model: LoadedModel) -> Generator[Live]:
    """A server that waits for nobody."""
    with live(number_model, HASTY) as server:
        yield server


@pytest.fixture(autouse=True)
def still_well(hasty: Live) -> Generator[None]:
    """Behind every test the server answers as before, nothing failed in it, and nothing is left in its engine."""
    yield
    assert eventually(lambda: hasty.service.status().running + hasty.service.status().queued == 0)
    assert hasty.service.status().columns_used == 0
    answer = hasty.chat()
    assert answer.status_code == 200
    assert not [name for name in figures(hasty) if name.startswith('anyorder_requests_total{status="500"')]


NOT_HTTP: dict[str, tuple[bytes, int]] = {
    "garbage": (b"\x00\xff\x13garbage\r\n\r\n", 400),
    "hello of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x07" * 500 + b"\r\n\r\n", 400),
    "no version": (b"GET /v1/models\r\n\r\n", 400),
    "no host": (head(host=...), 400),
    "space in a name": (b"GET / HTTP/1.1\r\nhost: localhost\r\nx y: 1\r\n\r\n", 400),
    "control character": (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: a\x00b\r\n\r\n", 400),
    "path not ascii": ("GET /ü HTTP/1.1\r\nhost: localhost\r\n\r\n".encode(), 400),
    "two lengths": (b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
    "negative length": (head(content_length=-1), 400),
    "length in words": (head(content_length="ten"), 400),
    "unknown transfer": (head(transfer_encoding="gzip, chunked"), 501),
    "head without end": (b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"x: y\r\n" * 20_000, 431),
    "line without end": (b"GET /" + b"a" * 200_000, 431),
}


@pytest.mark.parametrize("name", NOT_HTTP)
def test_what_is_no_http_is_refused_in_json(hasty: Live, name: str) -> None:
    request, status = NOT_HTTP[name]
    (reply,) = sent(hasty, request)
    assert reply.status == status
    assert reply.code == ("head_too_large" if status == 431 else "invalid_http")
    assert reply.headers["connection"] == "close"


def test_http_2_is_not_spoken(hasty: Live) -> None:
    found = sent(hasty, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert [(reply.status, reply.code) for reply in found] == [(404, "not_found"), (400, "invalid_http")]


def test_a_length_besides_chunks_does_not_smuggle_a_second_request(hasty: Live) -> None:
    both = head(content_length=4, transfer_encoding="chunked") + b"2\r\n{}\r\n0\r\n\r\n"
    found = sent(hasty, both, head(connection="close", content_length=2) + b"{}")
    assert {reply.status for reply in found} == {400}


@pytest.mark.parametrize(
    "headers",
    [{"x": "y" * 70_000}, {f"x{i}": "y" for i in range(101)}, {f"x{i}": "y" * 900 for i in range(80)}],
    ids=["long", "many", "both"],
)
def test_a_head_that_is_complete_but_too_large_is_refused(hasty: Live, headers: dict[str, str]) -> None:
    (reply,) = sent(hasty, head(connection="close", content_length=2, **headers) + b"{}")
    assert (reply.status, reply.code) == (431, "head_too_large")


def test_a_body_is_refused_by_its_announced_length(hasty: Live) -> None:
    (reply,) = sent(hasty, head(content_length=10**15))
    assert (reply.status, reply.code) == (413, "body_too_large")


def test_a_body_shorter_than_announced_is_no_request(hasty: Live) -> None:
    before = hasty.service.metrics.submitted
    body = chat(hasty)
    sent(hasty, head(content_length=len(body) + 1) + body, half_close=True)
    assert hasty.service.metrics.submitted == before


def test_broken_chunks_end_the_connection(hasty: Live) -> None:
    (reply,) = sent(hasty, head(transfer_encoding="chunked") + b"zz\r\n{}\r\n0\r\n\r\n")
    assert (reply.status, reply.code) == (400, "invalid_http")


def test_chunks_are_put_together_wherever_they_were_cut(hasty: Live) -> None:
    """Also inside a character."""
    body = chat(hasty, user="ü🌍").replace(b"\\u00fc", "ü".encode()).replace(b"\\ud83c\\udf0d", "🌍".encode())
    chunks = [b"1\r\n%c\r\n" % byte for byte in body]
    (reply,) = sent(hasty, head(connection="close", transfer_encoding="chunked"), *chunks, b"0\r\n\r\n")
    assert reply.status == 200


def test_other_encodings_are_refused(hasty: Live) -> None:
    for encoding in ("gzip", "br", "deflate", "zstd", "gzip, identity", "nonsense"):
        body = chat(hasty)
        (reply,) = sent(hasty, head(connection="close", content_encoding=encoding, content_length=len(body)) + body)
        assert (reply.status, reply.code) == (415, "encoded_body")


def test_http_1_0_is_served_and_hung_up_on(hasty: Live) -> None:
    body = chat(hasty)
    old = head(content_length=len(body)).replace(b"HTTP/1.1", b"HTTP/1.0")
    (reply,) = sent(hasty, old + body)
    assert reply.status == 200
    body = chat(hasty, stream=True)
    (reply,) = sent(hasty, head(content_length=len(body)).replace(b"HTTP/1.1", b"HTTP/1.0") + body)
    assert reply.body.endswith(b"data: [DONE]\n\n")


def test_requests_sent_at_once_are_answered_one_after_the_other(hasty: Live) -> None:
    body = chat(hasty)
    keep = head(content_length=len(body)) + body
    wrong = head(content_length=2) + b"{}"
    found = sent(hasty, keep + wrong + keep + head(connection="close", content_length=len(body)) + body)
    assert [reply.status for reply in found] == [200, 400, 200, 200]


def test_a_client_may_ask_whether_to_go_on(hasty: Live) -> None:
    body = chat(hasty)
    with connect(hasty) as connection:
        connection.sendall(head(connection="close", expect="100-continue", content_length=len(body)))
        assert connection.recv(4096).startswith(b"HTTP/1.1 100")
        connection.sendall(body)
        (reply,) = replies(until_closed(connection))
        assert reply.status == 200
    (reply,) = sent(hasty, head(connection="close", expect="100-continue", content_length=10**9))
    assert reply.status == 413


def test_heads_that_come_too_slowly_are_not_waited_for(hasty: Live) -> None:
    """However many there are, and however diligently they go on; others are served meanwhile."""
    slow = [connect(hasty) for _ in range(10)]
    try:
        for connection in slow:
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n")
        assert hasty.chat().status_code == 200
        for connection in slow:
            (reply,) = replies(dripped(connection))
            assert (reply.status, reply.code) == (408, "header_timeout")
    finally:
        for connection in slow:
            connection.close()


def dripped(connection: socket.socket) -> bytes:
    """What the server says while it gets a header every now and then."""
    connection.settimeout(0.05)
    for number in range(400):
        try:
            connection.sendall(b"x%d: y\r\n" % number)
            if answer := connection.recv(65536):
                return answer + until_closed(connection)
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            break
    return b""


def test_a_second_request_has_its_own_time(hasty: Live) -> None:
    body = chat(hasty)
    with connect(hasty) as connection:
        connection.sendall(head(content_length=len(body)) + body + b"POST /v1/chat")
        first, second = replies(until_closed(connection))
    assert (first.status, second.status, second.code) == (200, 408, "header_timeout")


def test_who_says_nothing_is_hung_up_on(hasty: Live) -> None:
    with connect(hasty) as connection:
        assert until_closed(connection) == b""


def test_a_body_that_comes_too_slowly_is_not_waited_for(hasty: Live) -> None:
    (reply,) = sent(hasty, head(content_length=100) + b"{")
    assert (reply.status, reply.code) == (408, "body_timeout")


def test_connections_are_counted(hasty: Live) -> None:
    """The one too many is told so at once; its place is free again when others leave."""
    assert eventually(lambda: hasty.chat().status_code == 200)
    held = [connect(hasty) for _ in range(HASTY.max_connections)]
    try:
        (reply,) = sent(hasty)
        assert (reply.status, reply.code) == (503, "overloaded")
        assert reply.headers["retry-after"] == "1"
    finally:
        for connection in held:
            connection.close()
    assert eventually(lambda: hasty.chat().status_code == 200)


def test_clients_that_drop_at_any_point_leave_nothing(hasty: Live) -> None:
    """Before a byte, inside the head, inside the body, right behind it, inside the answer."""
    body = chat(hasty, max_tokens=40, stream=True)
    request = head(content_length=len(body)) + body
    for end in (0, 1, 40, len(request) - 5, len(request)):
        for reads in (False, True):
            with connect(hasty) as connection:
                connection.sendall(request[:end])
                if reads and end == len(request):
                    assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_who_stops_reading_is_given_up_and_others_are_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers on both sides are full, and what does not fit them is not piled up."""

    def with_small_buffers(settings: ServerSettings) -> socket.socket:
        bound = listen(settings)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return bound

    monkeypatch.setattr(background, "listen", with_small_buffers)
    with live(scripted_model(), ServerSettings(write_timeout_s=0.2)) as server:
        body = chat(server, messages=MESSAGES, max_tokens=490, diffusing=True, stream=True)
        with socket.socket() as stalled:
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            stalled.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
            stalled.sendall(head(content_length=len(body)) + body)
            assert eventually(lambda: server.service.status().running > 0)
            assert server.chat(max_tokens=5).status_code == 200
            assert eventually(lambda: server.service.status().running == 0)
            given_up = 'anyorder_requests_total{status="499",surface="chat"}'
            assert eventually(lambda: figures(server).get(given_up) == 1)


def test_a_stream_with_nothing_to_say_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment, which clients skip, while a pass takes long."""
    with live(scripted_model(), ServerSettings(ping_s=0.02)) as server:
        engine, seen = server.service._scheduler.engine, threading.Event()
        real = engine.step

        def slow(batch: Any) -> Any:
            assert seen.wait(20)
            return real(batch)

        monkeypatch.setattr(engine, "step", slow)
        body = chat(server, messages=MESSAGES, stream=True)
        with connect(server) as connection:
            connection.sendall(head(connection="close", content_length=len(body)) + body)
            received = b""
            while received.count(b": ping\n\n") < 3:
                received += connection.recv(4096)
            seen.set()
            received += until_closed(connection)
    assert b'data: {"id"' in received
    assert b"data: [DONE]\n\n" in received
