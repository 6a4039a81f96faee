"""Traces: a span per request with figures and no text, below the client's span, and nothing at all unless asked for."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.server.live import SMALL, live
from tests.server.raw import chat as chat_body
from tests.server.raw import connect, head
from tests.server.test_operations import eventually

from anyorder.errors import MissingExtra
from anyorder.models.loaded import LoadedModel
from anyorder.server.app import make_app
from anyorder.server.settings import ServerSettings
from anyorder.serving import Service

ENDPOINT = "http://127.0.0.1:9/v1/traces"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Where the spans of a server with an `otlp_endpoint` go: not over the network."""
    pytest.importorskip("opentelemetry.sdk")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from anyorder.server import tracing

    exporter = InMemorySpanExporter()
    monkeypatch.setattr(tracing, "exporter_of", lambda endpoint: exporter)
    return exporter


def test_a_span_has_what_the_request_took(number_model: LoadedModel, spans: Any) -> None:
    with live(number_model, ServerSettings(otlp_endpoint=ENDPOINT, name="numbers")) as server:
        answer = server.chat(max_tokens=9, n=2).json()
        usage, reasons = answer["usage"], [choice["finish_reason"] for choice in answer["choices"]]
        server.chat(max_tokens=9, stream=True)
        with server.http() as http:
            http.post("/v1/completions", json={"model": "numbers", "prompt": "7 8", "max_tokens": 3})
            http.get("/health")
    whole, stream, text = spans.get_finished_spans()  # the server has ended, and sent what it had
    assert [span.name for span in (whole, stream, text)] == ["chat numbers", "chat numbers", "text_completion numbers"]
    assert (
        whole.attributes.items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "numbers",
            "gen_ai.usage.input_tokens": usage["prompt_tokens"],
            "gen_ai.usage.output_tokens": usage["completion_tokens"],
            "gen_ai.response.finish_reasons": tuple(reasons),
            "http.response.status_code": 200,
            "anyorder.surface": "chat",
            "anyorder.passes": usage["diffusion"]["passes"],
            "anyorder.tokens_per_forward": usage["diffusion"]["tokens_per_forward"],
        }.items()
    )
    assert stream.attributes["gen_ai.usage.output_tokens"] == usage["completion_tokens"] // 2
    assert text.attributes["anyorder.surface"] == "completions"
    for span in (whole, stream, text):
        parts = [span.attributes[f"anyorder.{part}_s"] for part in ("queue", "prefill", "decode")]
        assert all(part >= 0 for part in parts)
        assert span.parent is None
        assert span.kind.name == "SERVER"
        assert (span.end_time - span.start_time) / 1e9 >= parts[1]
        assert span.attributes["anyorder.request_id"].startswith("req-")
        assert span.resource.attributes["service.name"] == "anyorder"


def test_a_clients_trace_goes_on(number_model: LoadedModel, spans: Any) -> None:
    """One that says not to be recorded is not."""
    asked = {"n": 0}
    with live(number_model, ServerSettings(otlp_endpoint=ENDPOINT)) as server, server.http() as http:
        for flag in ("01", "00"):
            http.post("/v1/completions", json=asked, headers={"traceparent": f"00-{TRACE}-{PARENT}-{flag}"})
        http.post("/v1/completions", json=asked, headers={"traceparent": "nonsense"})
    child, own = spans.get_finished_spans()
    assert (child.context.trace_id, child.parent.span_id) == (int(TRACE, 16), int(PARENT, 16))
    assert own.parent is None


def test_errors_and_clients_that_go_have_spans_without_text(
    number_model: LoadedModel, spans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with live(number_model, ServerSettings(otlp_endpoint=ENDPOINT)) as server:
        server.chat(n=0, user="secret")
        body = chat_body(server, max_tokens=60, stream=True)
        with connect(server) as connection:
            connection.sendall(head(content_length=len(body)) + body)
            connection.recv(100)
        assert eventually(lambda: server.service.status().running == 0)

        def broken(*_: Any) -> None:
            raise RuntimeError("a secret address")

        monkeypatch.setattr(server.service._scheduler.engine, "step", broken)
        assert server.chat(messages=[{"role": "user", "content": "7 8 9"}]).status_code == 500
    wrong, _, failed = spans.get_finished_spans()
    assert wrong.attributes.items() >= {"http.response.status_code": 400, "error.type": "invalid_type"}.items()
    assert wrong.status.status_code.name == "UNSET"  # the client's fault
    assert failed.attributes["error.type"] == "engine_failed"
    assert failed.status.status_code.name == "ERROR"
    assert "secret" not in "".join(span.to_json() for span in spans.get_finished_spans())


def test_spans_arrive_at_a_collector(number_model: LoadedModel) -> None:
    """As OTLP in protobuf, the last of them when the server ends."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    got: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        try:
            settings = ServerSettings(otlp_endpoint=f"http://127.0.0.1:{collector.server_port}/v1/traces")
            with live(number_model, settings) as server:
                server.chat()
        finally:
            collector.shutdown()
            thread.join()
    assert {path for path, _ in got} == {"/v1/traces"}
    sent = [
        span.name
        for _, body in got
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert sent == [f"chat {server.model}"]


def test_a_collector_that_is_not_there_changes_no_answer(number_model: LoadedModel) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    with live(number_model, ServerSettings(otlp_endpoint=ENDPOINT)) as server:
        assert server.chat().status_code == 200


def test_nothing_of_it_is_imported_unless_it_is_asked_for() -> None:
    code = "import sys, anyorder.server.serve; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).returncode == 0


def test_a_missing_extra_is_named(number_model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "anyorder.server.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(MissingExtra, match=r"`otlp_endpoint` needs opentelemetry.*pip install 'anyorder\[otel\]'"):
        make_app(Service(number_model, SMALL), ServerSettings(otlp_endpoint=ENDPOINT))
