"""`anyorder serve` as a process: signals end it, a dying engine ends it or is started anew."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

SCRIPT = """
import itertools, os, sys, time
import anyorder
from anyorder.cli.app import run
from anyorder.engine.loop import Engine
from anyorder.server import app
from tests.cli.scripted import scripted_model

passes, real = itertools.count(1), Engine.step

def step(engine, batch):
    if (now := next(passes)) == BREAKS_AT:
        raise RuntimeError("a secret address")
    time.sleep(PASS_S)
    return real(engine, batch)

Engine.step = step
app.WATCH_S = WATCH_S
anyorder.load = lambda source=None, **flags: scripted_model()
sys.exit(run(["serve", "--port", "0", "--kv-bytes", "1000000", *sys.argv[1:]]))
"""


@dataclass
class Process:
    """A server in a process of its own."""

    url: str
    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list[str])

    def http(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, timeout=30)

    @contextmanager
    def stream(self, length: int = 300) -> Generator[Generator[str]]:
        """The lines of a streamed chat, the first of which has come."""
        body = {"model": "scripted", "messages": [{"role": "user", "content": "a secret"}], "max_tokens": length}
        with self.http() as http, http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as stream:
            lines = (line for line in stream.iter_lines() if line)
            assert next(lines).startswith("data: ")
            yield lines

    def complete(self) -> httpx2.Response:
        """A short answer, whole."""
        with self.http() as http:
            return http.post("/v1/completions", json={"model": "scripted", "prompt": "a", "max_tokens": 5})

    def state(self) -> tuple[int, str]:
        """What `/ready` says."""
        with self.http() as http:
            answer = http.get("/ready")
            return answer.status_code, answer.json()["status"]

    def ends(self) -> int:
        """Its exit code."""
        return self.process.wait(30)


@contextmanager
def process(*flags: str, breaks_at: int = 0, pass_s: float = 0.0, watch_s: float = 1.0) -> Generator[Process]:
    """A server whose engine breaks at a pass, takes some time for each, and is looked at so often."""
    script = SCRIPT.replace("BREAKS_AT", str(breaks_at)).replace("PASS_S", str(pass_s))
    script = script.replace("= WATCH_S", f"= {watch_s}")
    command = [sys.executable, "-c", script, *flags]
    started = subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True)
    stderr = started.stderr
    assert stderr is not None
    running = Process(stderr.readline().split()[-1].removesuffix("/v1"), started)
    reader = threading.Thread(target=lambda: running.log.extend(stderr))
    reader.start()
    try:
        yield running
    finally:
        started.kill()
        started.wait()
        reader.join()
        stderr.close()
    assert "secret" not in "".join(line for line in running.log if line.startswith("{") or " INFO " in line)


def last_error(lines: Any) -> dict[str, Any]:
    """The error that a stream ends with."""
    found = list(lines)
    assert found[-1].startswith('data: {"error":')
    assert "secret" not in found[-1]
    return json.loads(found[-1].removeprefix("data: "))["error"]


def test_a_signal_lets_answers_end_and_takes_no_new_ones() -> None:
    with process(pass_s=0.01) as server:
        with server.stream(length=100) as lines:
            assert server.state() == (200, "ready")
            server.process.send_signal(signal.SIGTERM)
            while server.state()[0] == 200:
                pass
            assert server.state() == (503, "draining")
            refused = server.complete()
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
            assert refused.headers["retry-after"] == "5"
            rest = list(lines)
        assert rest[-1] == "data: [DONE]"
        assert sum('"finish_reason":"length"' in line for line in rest) == 1
        assert server.ends() == 0
    assert any('"completion_tokens": 100' in line for line in server.log)
    assert not any("secret" in line or "Blue" in line for line in server.log)


def test_a_watched_engine_that_was_told_to_stop_is_no_failure() -> None:
    """The watch of the engine, here at every turn of the loop, sees it end before the server has."""
    with process(watch_s=0.0) as server:
        assert server.complete().status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.ends() == 0
    assert not any("the engine failed" in line for line in server.log)


def test_answers_that_take_too_long_to_end_are_told_so() -> None:
    with process("--drain-s", "0.3", pass_s=0.05) as server:
        with server.stream() as lines:
            server.process.send_signal(signal.SIGTERM)
            assert last_error(lines)["code"] == "unavailable"
        assert server.ends() == 0


def test_a_second_signal_does_not_wait() -> None:
    with process(pass_s=0.05) as server:
        with server.stream() as lines:
            server.process.send_signal(signal.SIGINT)
            while server.state()[0] == 200:
                pass
            server.process.send_signal(signal.SIGTERM)
            assert last_error(lines)["code"] == "unavailable"
        assert server.ends() == 0


def test_a_dying_engine_ends_the_process_with_an_error() -> None:
    with process(breaks_at=20) as server:
        with server.stream() as lines:
            assert last_error(lines)["code"] == "engine_failed"
        assert server.ends() == 1
    assert any("the engine failed and the server has ended" in line for line in server.log)


def test_an_engine_that_may_is_started_anew() -> None:
    with process("--restarts", "1", breaks_at=20) as server:
        with server.stream() as lines:
            assert last_error(lines)["code"] == "engine_failed"
        assert server.complete().status_code == 200
        assert server.state() == (200, "ready")
        with server.http() as http:
            assert "anyorder_engine_failures_total 1.0" in http.get("/metrics").text.splitlines()
        server.process.send_signal(signal.SIGTERM)
        assert server.ends() == 0
