"""A span of OpenTelemetry per request. Needs the extra `otel`; `extra.py` imports this only where it is asked for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from anyorder.server.choice import Choice

if TYPE_CHECKING:
    from anyorder.server.endpoint import Record

EXPORT_TIMEOUT_S = 5.0
_OPERATIONS = {"chat": "chat", "responses": "chat"}  # as OpenTelemetry calls them; everything else completes a text


def exporter_of(endpoint: str) -> SpanExporter:
    """Sends spans to a collector, as OTLP over HTTP; `OTEL_EXPORTER_OTLP_HEADERS` has its keys."""
    return OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S)


class Traces:
    """Makes spans of finished requests and sends them, in a thread of its own."""

    def __init__(self, exporter: SpanExporter) -> None:
        resource = Resource({SERVICE_NAME: "anyorder"}).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("anyorder.server")
        self._propagator = TraceContextTextMapPropagator()

    def add(self, record: Record, *, model: str, status: int, code: str | None, counted: dict[str, Any] | None) -> None:
        """Make the span of a request that has just ended: a child of the client's, if it sent a `traceparent`.

        Neither prompt nor answer is in it.

        Args:
            code: of the error, if there was one.
            counted: the usage of the answers, if there were any.
        """
        ended_ns = time.time_ns()
        operation = _OPERATIONS.get(record.surface, "text_completion")
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": operation,
            "gen_ai.request.model": model,
            "http.response.status_code": status,
            "anyorder.surface": record.surface,
            "anyorder.request_id": record.request.scope["state"]["request_id"],
            **(_of_answers(record.choices, counted) if counted else {}),
            **({"error.type": code} if code else {}),
        }
        span = self._tracer.start_span(
            f"{operation} {model}",
            context=self._propagator.extract(dict(record.request.headers)),
            kind=SpanKind.SERVER,
            attributes=attributes,
            start_time=ended_ns - int((time.monotonic() - record.began) * 1e9),
        )
        if status >= 500:
            span.set_status(StatusCode.ERROR, code)
        span.end(ended_ns)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def _of_answers(choices: Sequence[Choice], counted: dict[str, Any]) -> dict[str, Any]:
    """What the answers took; the times are those of the slowest."""
    reasons = [choice.answer.finish_reason or "none" for choice in choices if choice.scores is None]
    times = {
        "anyorder.queue_s": [choice.ticket.timing.queued_s for choice in choices],
        "anyorder.prefill_s": [_prefill_s(choice) for choice in choices],
        "anyorder.decode_s": [_decode_s(choice) for choice in choices],
    }
    return {
        "gen_ai.usage.input_tokens": counted["prompt_tokens"],
        "gen_ai.usage.output_tokens": counted["completion_tokens"],
        "gen_ai.response.finish_reasons": reasons,
        "anyorder.cached_tokens": counted["cached_input_tokens"],
        "anyorder.passes": counted["diffusion"]["passes"],
        "anyorder.tokens_per_forward": counted["diffusion"]["tokens_per_forward"],
        **{name: max(known) for name, found in times.items() if (known := [one for one in found if one is not None])},
    }


def _prefill_s(choice: Choice) -> float | None:
    """From its begin to its first decided slot."""
    timing = choice.ticket.timing
    if timing.queued_s is None or timing.first_commit_s is None:
        return None
    return timing.first_commit_s - timing.queued_s


def _decode_s(choice: Choice) -> float | None:
    """From there to its end, or to what was read of it last where the client did not wait for that."""
    first, total = choice.ticket.timing.first_commit_s, choice.ticket.timing.total_s
    if total is None and choice.last_at is not None:
        total = choice.last_at - choice.asked_at
    return None if first is None or total is None else max(total - first, 0.0)
