"""What an operator sees: figures that say what happened, refusals in log and figures, bodies read off the loop."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.cli.scripted import scripted_model
from tests.server.live import SMALL, Live, live
from tests.server.raw import head, sent
from tests.server.test_operations import MESSAGES, eventually, figures

from anyorder.models.loaded import LoadedModel
from anyorder.server import body as body_module
from anyorder.server.settings import ServerSettings
from anyorder.serving import ServiceSettings


def lines_of(caplog: pytest.LogCaptureFixture, count: int) -> list[dict[str, Any]]:
    """The server's lines, as many as must come."""
    assert eventually(lambda: len([r for r in caplog.records if r.name == "anyorder.server"]) >= count)
    return [json.loads(record.message) for record in caplog.records if record.name == "anyorder.server"]


def test_refusals_without_an_endpoint_are_logged_and_counted(
    number_model: LoadedModel, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither key nor path nor host, which are the client's words, are in them."""
    settings = ServerSettings(api_keys=("right",), header_timeout_s=0.2)
    good = {"authorization": "Bearer right"}
    with live(number_model, settings) as server, caplog.at_level(logging.INFO, "anyorder.server"):
        with server.http() as http:
            http.get("/v1/models", headers={"authorization": "Bearer secret", "x-request-id": "one"})
            http.get("/v1/models", headers={**good, "host": "secret.example", "x-request-id": "two"})
            http.get("/v1/models", headers={**good, "x": "secret" * 20_000, "x-request-id": "three"})
            http.get("/secret", headers={**good, "x-request-id": "four"})
            http.get("/v1/completions", headers={**good, "x-request-id": "five"})
        sent(server, b"\x00secret\r\n\r\n")
        sent(server, head()[:30])
        found = [(line.get("request_id"), line["status"], line["error"]) for line in lines_of(caplog, 7)]
        with server.http() as http:
            text = http.get("/metrics", headers=good).text
    expected = [
        ("one", 401, "invalid_api_key"),
        ("two", 421, "wrong_host"),
        ("three", 431, "head_too_large"),
        ("four", 404, "not_found"),
        ("five", 405, "method_not_allowed"),
        (None, 400, "invalid_http"),
        (None, 408, "header_timeout"),
    ]
    assert found == expected
    assert "secret" not in caplog.text
    assert "secret" not in text
    for _, status, code in expected:
        assert f'anyorder_requests_total{{status="{status}",surface="none"}} 1.0' in text
        assert f'anyorder_errors_total{{code="{code}"}} 1.0' in text


def test_connections_over_the_limit_are_logged_and_counted(
    number_model: LoadedModel, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ServerSettings(max_connections=1)
    with (
        live(number_model, settings) as server,
        server.http() as http,
        caplog.at_level(logging.INFO, "anyorder.server"),
    ):
        http.get("/health")  # and stays
        (reply,) = sent(server)
        assert reply.status == 503
        (line,) = lines_of(caplog, 1)
        assert (line["status"], line["error"]) == (503, "overloaded")
        assert 'anyorder_errors_total{code="overloaded"} 1.0' in http.get("/metrics").text


def test_errors_of_endpoints_are_counted_by_code(number_model: LoadedModel) -> None:
    settings = ServerSettings(requests_per_minute=3)
    with live(number_model, settings) as server:
        statuses = [server.chat(**changes).status_code for changes in ({}, {"n": 0}, {"max_tokens": 10**6}, {})]
        found = figures(server)
    assert statuses == [200, 400, 400, 429]
    for code in ("invalid_type", "context_length_exceeded", "rate_limit_exceeded"):
        assert found[f'anyorder_errors_total{{code="{code}"}}'] == 1


def families(server: Live) -> dict[str, Metric]:
    """Everything that `/metrics` says, by name."""
    with server.http() as http:
        found = list(text_string_to_metric_families(http.get("/metrics").text))
    assert len({family.name for family in found}) == len(found)
    return {family.name: family for family in found}


def test_every_figure_has_a_kind_and_says_what_it_is(numbers: Live) -> None:
    for family in families(numbers).values():
        assert family.type in ("gauge", "counter", "histogram")
        assert family.documentation
        assert not family.name.endswith(("_s", "_ms"))  # seconds are written out
        assert family.type == "counter" or not family.name.endswith("_total")


def test_who_waits_and_what_is_held_is_seen_while_it_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ServiceSettings(kv_bytes=SMALL.kv_bytes, max_running=1)
    with live(scripted_model(), engine=engine) as server:
        loop, go_on = server.service._scheduler.engine, threading.Event()
        real = loop.step

        def held(batch: Any) -> Any:
            assert go_on.wait(20)
            return real(batch)

        monkeypatch.setattr(loop, "step", held)
        asking = [threading.Thread(target=server.chat, kwargs={"messages": MESSAGES}) for _ in range(3)]
        for thread in asking:
            thread.start()
        assert eventually(lambda: server.service.status().queued == 2)
        during = figures(server)
        go_on.set()
        for thread in asking:
            thread.join()
        behind = figures(server)
    assert (during["anyorder_running"], during["anyorder_queued"], during["anyorder_max_running"]) == (1, 2, 1)
    assert 0 < during["anyorder_columns_used"] < during["anyorder_columns_max"]
    assert during["anyorder_pass_seconds"] > 0
    assert (behind["anyorder_running"], behind["anyorder_queued"], behind["anyorder_columns_used"]) == (0, 0, 0)
    assert behind["anyorder_finished_total"] == behind["anyorder_queue_seconds_count"] == 3
    assert behind["anyorder_busy_seconds_total"] > during["anyorder_busy_seconds_total"]


def test_occupancy_cache_and_times_follow_from_the_figures(number_model: LoadedModel) -> None:
    prompt = " ".join(str(7 + number % 9) for number in range(64))
    with live(number_model) as server:
        for _ in range(2):
            server.chat(messages=[{"role": "user", "content": prompt}], max_tokens=9, n=2)
        found, counted = figures(server), server.service.status().metrics
    assert found["anyorder_sequence_passes_total"] / found["anyorder_passes_total"] == counted.occupancy > 1
    assert found["anyorder_prefix_hits_total"] >= 2
    assert 0 < found["anyorder_cached_tokens_total"] < found["anyorder_prompt_tokens_total"]
    assert found["anyorder_prefix_columns_used"] > 0
    for name in ("time_to_first_text_seconds", "time_to_last_text_seconds", "tokens_per_forward"):
        assert found[f"anyorder_{name}_count"] == 4
        assert found[f'anyorder_{name}_bucket{{le="+Inf"}}'] == 4
        assert found[f"anyorder_{name}_sum"] > 0
    assert found["anyorder_time_to_first_text_seconds_sum"] <= found["anyorder_time_to_last_text_seconds_sum"]


@pytest.mark.parametrize(("size", "aside"), [(100, False), (70_000, True)])
def test_long_bodies_are_read_beside_the_loop(
    numbers: Live, monkeypatch: pytest.MonkeyPatch, size: int, aside: bool
) -> None:
    seen: list[str] = []
    real: Callable[[bytes], dict[str, Any]] = body_module.parse_object

    def parse(raw: bytes) -> dict[str, Any]:
        seen.append(threading.current_thread().name)
        return real(raw)

    monkeypatch.setattr(body_module, "parse_object", parse)
    assert numbers.chat(user="x" * size).status_code == 200
    assert [name != "anyorder-server" for name in seen] == [aside]


def test_long_bodies_that_are_wrong_are_refused_as_short_ones_are(numbers: Live) -> None:
    for body in (b"[" * 100_000, b'{"a":' * 50_000, b'{"a": "' + b"\xff" * 100_000 + b'"}', b" " * 100_000):
        with numbers.http() as http:
            refused = http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_json")
