"""Keys, hosts, ids, logs, figures, limits, clients that vanish, an engine that dies."""

from __future__ import annotations

import json
import logging
import re
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import openai
import pytest
from tests.cli.scripted import scripted_model
from tests.server.live import SMALL, Live, live

from anyorder.models.loaded import LoadedModel
from anyorder.server.settings import ServerSettings
from anyorder.serving import ServiceSettings

MESSAGES: Any = [{"role": "user", "content": "hi"}]


def eventually(holds: Callable[[], bool]) -> bool:
    """True as soon as something holds that another thread brings about."""
    for _ in range(2000):
        if holds():
            return True
        time.sleep(0.005)
    return False


def test_keys_are_asked_for_everywhere_but_for_the_state_of_health(number_model: LoadedModel) -> None:
    with live(number_model, ServerSettings(api_keys=("right", "other"))) as server, server.http() as http:
        for given in ([], ["Bearer wrong"], ["Basic right"], ["right"], ["Bearer"], ["Bearer right"] * 2):
            headers = [("authorization", value) for value in given]
            for path in ("/v1/models", "/metrics", "/nothing"):
                refused = http.get(path, headers=headers)
                assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
                assert refused.headers["www-authenticate"] == "Bearer"
        assert http.get("/health").status_code == http.get("/ready").status_code == 200
        for key in ("right", "other"):
            assert server.client(key).models.list().data[0].id == server.model
        with pytest.raises(openai.AuthenticationError):
            server.client("wrong").models.list()


def test_a_server_of_this_machine_does_not_answer_to_other_names(numbers: Live) -> None:
    with numbers.http() as http:
        for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example"):
            assert http.get("/v1/models", headers={"host": host}).status_code == 421
        for host in ("localhost:1", "127.0.0.1", "[::1]:8000"):
            assert http.get("/v1/models", headers={"host": host}).status_code == 200


def test_pages_of_other_origins_may_only_call_where_it_is_allowed(numbers: Live, number_model: LoadedModel) -> None:
    asks = {"origin": "http://page", "access-control-request-method": "POST"}
    with numbers.http() as http:
        assert "access-control-allow-origin" not in http.options("/v1/models", headers=asks).headers
    with live(number_model, ServerSettings(cors_origins=("http://page",))) as server, server.http() as http:
        assert http.options("/v1/models", headers=asks).headers["access-control-allow-origin"] == "http://page"
        other = http.options("/v1/models", headers={**asks, "origin": "http://other"})
        assert "access-control-allow-origin" not in other.headers


def test_request_ids_are_taken_over_if_they_are_harmless(numbers: Live) -> None:
    with numbers.http() as http:
        assert http.get("/health", headers={"x-request-id": "a-1._Z"}).headers["x-request-id"] == "a-1._Z"
        for given in ("a b", "x" * 129, 'a"b', "ä".encode()):
            named = http.get(
                "/health", headers=[(b"x-request-id", given if isinstance(given, bytes) else given.encode())]
            )
            assert re.fullmatch(r"req-[0-9a-f]{32}", named.headers["x-request-id"])


def test_the_log_has_figures_and_no_text(letters: Live, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "anyorder.server"):
        with letters.http() as http:
            body = {"model": letters.model, "messages": [{"role": "user", "content": "my secret"}], "max_tokens": 4}
            http.post("/v1/chat/completions", json=body, headers={"x-request-id": "one"})
            http.post("/v1/chat/completions", json={**body, "stream": True}, headers={"x-request-id": "two"})
            http.post("/v1/chat/completions", json={**body, "n": 0}, headers={"x-request-id": "three"})
        assert eventually(lambda: len(caplog.records) == 3)
    lines = {line["request_id"]: line for line in (json.loads(record.message) for record in caplog.records)}
    assert "secret" not in caplog.text
    for name in ("one", "two"):
        assert lines[name].items() >= {"surface": "chat", "status": 200, "completion_tokens": 4, "passes": 4}.items()
        assert lines[name]["finish_reasons"] == ["length"]
    assert lines["three"].items() >= {"status": 400, "error": "invalid_type"}.items()


def figures(server: Live) -> dict[str, float]:
    with server.http() as http:
        text = http.get("/metrics").text
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}


def test_metrics_count_what_was_done(number_model: LoadedModel) -> None:
    with live(number_model) as server:
        answer = server.chat(messages=[{"role": "user", "content": "7 8"}], max_tokens=9).json()
        server.chat(n=0)
        found = figures(server)
        assert found['anyorder_requests_total{status="200",surface="chat"}'] == 1
        assert found['anyorder_requests_total{status="400",surface="chat"}'] == 1
        assert found["anyorder_delivered_tokens_total"] == answer["usage"]["completion_tokens"]
        assert found["anyorder_passes_total"] == answer["usage"]["diffusion"]["passes"]
        assert found["anyorder_tokens_total"] == answer["usage"]["diffusion"]["committed"]
        assert found["anyorder_tokens_per_forward_count"] == found["anyorder_time_to_last_text_seconds_count"] == 1
        assert found["anyorder_queue_seconds_count"] == 1
        assert (found["anyorder_running"], found["anyorder_queued"]) == (0, 0)
        assert found["anyorder_columns_max"] > 0


def test_a_client_that_goes_frees_the_engine() -> None:
    """Both while it waits for a whole answer and in the middle of a stream."""
    with live(scripted_model()) as server:
        metrics = server.service.metrics
        for count, stream in enumerate((False, True)):
            body = {"model": server.model, "messages": MESSAGES, "max_tokens": 490, "stream": stream}
            with begun(server, json.dumps(body).encode()):
                assert eventually(lambda: server.service.status().running == 1)
            assert eventually(partial(lambda seen: metrics.cancelled == seen + 1, count))
            assert eventually(lambda: server.service.status().running == 0)
        found = figures(server)
        assert found['anyorder_requests_total{status="499",surface="chat"}'] == 2


def begun(server: Live, body: bytes, length: int | None = None) -> socket.socket:
    """A connection over which a chat was asked for, or a part of it."""
    connection = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=20)
    connection.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%s" % (length or len(body), body)
    )
    return connection


def test_too_many_requests_are_told_to_come_back(number_model: LoadedModel) -> None:
    """Two places in all, three answers wanted: none of them stays behind."""
    engine = ServiceSettings(kv_bytes=SMALL.kv_bytes, max_running=1, max_queued=1)
    with live(scripted_model(), engine=engine) as server:
        answer = server.chat(n=8, max_tokens=200)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "overloaded"
        assert answer.headers["retry-after"] == "1"
        with pytest.raises(openai.InternalServerError):
            server.client().chat.completions.create(model=server.model, messages=MESSAGES, n=8, max_tokens=200)
        assert eventually(lambda: server.service.status().running + server.service.status().queued == 0)
        assert server.chat().status_code == 200


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    with live(scripted_model(), ServerSettings(request_timeout_s=1e-4)) as server:
        late = server.chat()
        assert (late.status_code, late.json()["error"]["code"]) == (504, "timeout")
        assert late.headers["x-should-retry"] == "false"
        with pytest.raises(openai.APIError) as told:
            list(server.client().chat.completions.create(model=server.model, messages=MESSAGES, stream=True))
        assert told.value.code == "timeout"


def test_a_slow_body_is_not_waited_for(number_model: LoadedModel) -> None:
    with live(number_model, ServerSettings(body_timeout_s=0.05)) as server, begun(server, b"{", 100) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 408")


def test_a_dying_engine_fails_its_answers_and_ends_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with live(scripted_model()) as server:
        with server.http() as http:
            assert http.get("/health").json() == {"status": "ok"}
            assert http.get("/ready").json() == {"status": "ready", "running": 0, "queued": 0}

            def broken(*_: Any) -> None:
                raise RuntimeError("at a secret address")

            monkeypatch.setattr(server.service._scheduler.engine, "step", broken)
            failed = http.post(
                "/v1/chat/completions", json={"model": server.model, "messages": MESSAGES, "max_tokens": 5}
            )
            assert (failed.status_code, failed.json()["error"]["code"]) == (500, "engine_failed")
            assert "secret" not in failed.text
            health = http.get("/health")
            assert (health.status_code, health.json()) == (503, {"status": "dead"})
            assert http.get("/ready").status_code == 503
            assert http.post("/v1/completions", json={"model": server.model, "prompt": "a"}).status_code == 503

        def gone() -> bool:
            try:
                socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))).close()
            except ConnectionError:
                return True
            return False

        assert eventually(gone)
    assert "the engine failed" in caplog.text
