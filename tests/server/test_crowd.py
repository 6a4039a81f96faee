"""Many clients over HTTP: nothing is lost, doubled or mixed up, and nothing piles up in the server."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.cli.test_serve_process import Process, process
from tests.server.live import Live, live
from tests.server.raw import head
from tests.server.test_operations import eventually

import anyorder
from anyorder.models.loaded import LoadedModel
from anyorder.serving import ServiceSettings

ON_LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")


async def streamed(http: httpx2.AsyncClient, body: dict[str, Any]) -> tuple[str, int, str]:
    """Text, tokens and finish reason of a streamed completion."""
    pieces: list[str] = []
    reasons: list[str] = []
    count = 0
    body = {**body, "stream": True, "stream_options": {"include_usage": True}}
    async with http.stream("POST", "/v1/completions", json=body) as stream:
        assert stream.status_code == 200
        lines = [line async for line in stream.aiter_lines() if line.startswith("data: ")]
    assert lines.pop() == "data: [DONE]"
    for data in (json.loads(line.removeprefix("data: ")) for line in lines):
        for choice in data["choices"]:
            pieces.append(choice["text"])
            reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
        count = data["usage"]["completion_tokens"] if data["usage"] else count
    (reason,) = reasons
    return "".join(pieces), count, reason


async def all_streamed(server: Live, bodies: Sequence[dict[str, Any]]) -> list[tuple[str, int, str]]:
    """All of them at once."""
    limits = httpx2.Limits(max_connections=len(bodies))
    async with httpx2.AsyncClient(base_url=server.url, timeout=600, limits=limits) as http:
        return await asyncio.gather(*[streamed(http, body) for body in bodies])


def test_sixteen_streams_at_once_are_those_of_one(number_model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts, lengths and seeds differ, so that a token in the wrong stream, twice or not at all would be seen."""
    asks = [(f"7 {8 + number}", 20 + number, number) for number in range(16)]
    decoding = {"temperature": 1.0, "ignore_eos": True}
    expected = [
        anyorder.generate(number_model, prompt, max_new_tokens=length, temperature=1.0, seed=seed, stop_ids=())
        for prompt, length, seed in asks
    ]
    assert len({answer.text for answer in expected}) == 16
    with live(number_model) as server:
        engine, together = server.service._scheduler.engine, threading.Event()
        real = engine.step

        def once_all_are_there(batch: Any) -> Any:
            assert together.wait(20)
            return real(batch)

        monkeypatch.setattr(engine, "step", once_all_are_there)

        def release() -> None:
            def all_there() -> bool:
                status = server.service.status()
                return status.running + status.queued == 16

            eventually(all_there)
            together.set()

        watcher = threading.Thread(target=release)
        watcher.start()
        bodies = [
            {"model": server.model, "prompt": prompt, "max_tokens": length, "seed": seed, **decoding}
            for prompt, length, seed in asks
        ]
        found = asyncio.run(all_streamed(server, bodies))
        watcher.join()
        assert server.service.status().metrics.occupancy > 8
    assert found == [(answer.text, len(answer.ids), "length") for answer in expected]


@pytest.mark.slow
def test_sixty_four_streams_of_the_embedded_model() -> None:
    """Greedy and in float32, where company changes no digit that matters; each text is told from the others."""
    model = anyorder.load("smollm2")
    prompts = [f"{word} {number}:" for word in ("Chapter", "Recipe", "Letter", "Exercise") for number in range(1, 17)]
    lengths = [12 + 3 * (number % 8) for number in range(64)]
    expected = [
        anyorder.generate(model, prompt, max_new_tokens=length) for prompt, length in zip(prompts, lengths, strict=True)
    ]
    engine = ServiceSettings(kv_bytes=512 << 20, max_running=64)
    with live(model, engine=engine) as server:
        bodies = [
            {"model": server.model, "prompt": prompt, "max_tokens": length}
            for prompt, length in zip(prompts, lengths, strict=True)
        ]
        found = asyncio.run(all_streamed(server, bodies * 3))  # three times as many as fit
        assert server.service.status().metrics.occupancy > 16
    assert len({answer.text for answer in expected}) > 48
    assert found == [(answer.text, len(answer.ids), answer.finish_reason) for answer in expected] * 3


def open_files(server: Process) -> int:
    """File descriptors of the server's process."""
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


@ON_LINUX
def test_two_hundred_that_connect_and_drop_leave_no_descriptor() -> None:
    """With nothing said, half a head, half a body, a whole request, or an answer begun; some without a good-bye."""
    with process() as server:
        assert server.complete().status_code == 200
        before = open_files(server)
        body = b'{"model": "scripted", "prompt": "a", "max_tokens": 300, "stream": true}'
        request = head(content_length=len(body)).replace(b"/chat", b"") + body
        address = "127.0.0.1", int(server.url.rpartition(":")[2])
        for begin in range(0, 200, 40):
            with ExitStack() as stack:
                held = [stack.enter_context(socket.create_connection(address, timeout=20)) for _ in range(40)]
                for number, connection in enumerate(held, begin):
                    if number % 8 < 4:  # a reset instead of an end
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                    connection.sendall(request[: (0, 30, len(request) - 9, len(request))[number % 4]])
                assert held[-1].recv(12) == b"HTTP/1.1 200"
                assert open_files(server) > before
        assert eventually(lambda: open_files(server) <= before)
        assert server.complete().json()["usage"]["completion_tokens"] == 5
        assert server.state() == (200, "ready")


def resident_kib(server: Process) -> int:
    """Memory of the server's process."""
    status = Path(f"/proc/{server.process.pid}/status").read_text("ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1])


def ask_something(http: httpx2.Client, number: int) -> None:
    """One request of a mixture: streams of three kinds, whole answers, clients that go, wrong requests."""
    body: dict[str, Any] = {
        "model": "scripted",
        "messages": [{"role": "user", "content": "x" * (number % 97)}],
        "max_tokens": 1 + number % 40,
    }
    path, kind = "/v1/chat/completions", number % 8
    if kind == 0:
        assert http.post(path, json={**body, "n": 0}).status_code == 400
    elif kind == 1:
        assert http.post(path, content=b"{" + b" " * (number * 37 % 9000)).status_code == 415
    elif kind in (2, 3):
        with http.stream("POST", path, json={**body, "max_tokens": 300, "stream": True}) as stream:
            assert next(stream.iter_lines()).startswith("data: ")  # and goes
    elif kind == 4:
        assert http.post(path, json={**body, "diffusing": True}).status_code == 200
    elif kind == 5:
        assert http.post(path, json={**body, "stream": True, "stream_format": "events"}).status_code == 200
    elif kind == 6:
        assert http.post(path, json={**body, "stream": True}).text.endswith("data: [DONE]\n\n")
    else:
        assert http.post(path, json={**body, "logprobs": True, "top_logprobs": 3}).status_code == 200


@pytest.mark.slow
@ON_LINUX
def test_memory_is_flat_over_two_thousand_requests() -> None:
    """1,500 requests behind the first 500 may add 4 MiB, which is less than 3 KiB each."""
    numbers = list(range(2000))
    random.Random(1).shuffle(numbers)
    with process() as server, server.http() as http, ThreadPoolExecutor(4) as threads:

        def ask(part: Sequence[int]) -> int:
            list(threads.map(lambda number: ask_something(http, number), part))
            return resident_kib(server)

        early, late = ask(numbers[:500]), ask(numbers[500:])
        with server.http() as other:
            text = other.get("/metrics").text
        print(f"resident after 500 requests: {early} KiB, after 2,000: {late} KiB")
    assert 'anyorder_requests_total{status="200",surface="chat"}' in text
    assert late - early < 4096
