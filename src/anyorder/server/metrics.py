"""Figures for Prometheus: the engine's, read when asked for, and those of the requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from anyorder.server.choice import Choice
from anyorder.serving import Service

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_TOKENS_PER_FORWARD = (0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)

_GAUGES = {
    "running": "Requests that take part in passes",
    "queued": "Requests that wait",
    "accepting": "1 while new requests are taken",
    "pass_s": "Seconds that the present pass has taken so far; minutes say that the device hangs",
    "columns_used": "Columns of keys and values that running requests hold",
    "columns_total": "Columns of keys and values for running requests",
    "prefix_used": "Columns in the prefix cache",
    "prefix_total": "Columns that fit the prefix cache",
    "kv_bytes": "Memory for keys and values, in bytes",
}
_COUNTERS = {
    "submitted": "Works handed to the engine, wrong ones included",
    "refused": "Works that the engine refused: too many waited, or it was about to end",
    "finished": "Answers that came to their end",
    "cancelled": "Answers that were given up: the client went, or a stop string ended them",
    "expired": "Answers whose deadline came first",
    "failed": "Answers that failed in the engine, or with it",
    "passes": "Forward passes",
    "sequence_passes": "Forward passes, each counted once per request that took part; by passes it is the occupancy",
    "scoring_passes": "Those of them that scored given text",
    "busy_s": "Seconds inside passes; their rate is the part of the time that the engine works",
    "tokens": "Slots committed",
    "scored": "Tokens of given texts scored",
    "positions": "Canvas positions computed by finished requests",
    "prompt_tokens": "Prompt tokens of requests that began to run",
    "cached_tokens": "Those of them that the prefix cache had",
    "prefix_hits": "Requests that found something in the prefix cache",
    "evicted": "Evictions of running requests from memory, for more urgent ones",
    "engine_failures": "Failures of the engine",
}


class ServerMetrics:
    """Counters and histograms of the requests, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "anyorder_requests", "Requests by surface and HTTP status", ["surface", "status"], registry=self.registry
        )
        self.errors = Counter(
            "anyorder_errors", "Requests that were refused or failed, by code", ["code"], registry=self.registry
        )
        self.first_text = self._histogram("time_to_first_text_seconds", "From the request to its first text", _SECONDS)
        self.last_text = self._histogram("time_to_last_text_seconds", "From the request to the end", _SECONDS)
        self.queue = self._histogram("queue_seconds", "Time of a request in the queue", _SECONDS)
        self.tokens_per_forward = self._histogram(
            "tokens_per_forward", "Delivered tokens of an answer per pass", _TOKENS_PER_FORWARD
        )
        self.delivered = Counter("anyorder_delivered_tokens", "Tokens delivered", registry=self.registry)
        self.wasted = Counter("anyorder_wasted_tokens", "Slots committed for nothing", registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"anyorder_{name}", text, buckets=buckets, registry=self.registry)

    def watch(self, service: Service) -> None:
        """Read the engine's figures whenever somebody asks."""
        self.registry.register(_EngineFigures(service))

    def ended(self, surface: str, status: int, code: str | None) -> None:
        """Count a request by how it ended.

        Args:
            code: of its error, if it had one.
        """
        self.requests.labels(surface, str(status)).inc()
        if code is not None:
            self.errors.labels(code).inc()

    def add(self, choices: Sequence[Choice]) -> None:
        """Count answers, finished or given up."""
        for choice in choices:
            if choice.scores is not None:
                continue  # the service counts what it scored
            answer = choice.answer
            self.delivered.inc(answer.delivered)
            self.wasted.inc(answer.wasted)
            if choice.ticket.timing.queued_s is not None:
                self.queue.observe(choice.ticket.timing.queued_s)
            if choice.first_text_at is not None:
                self.first_text.observe(choice.first_text_at - choice.asked_at)
            if answer.finish_reason and choice.last_at is not None:
                self.last_text.observe(choice.last_at - choice.asked_at)
                self.tokens_per_forward.observe(answer.delivered / max(answer.passes, 1))

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)


class _EngineFigures:
    """The status of a service, as metrics."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterable[Metric]:
        status = self.service.status()
        for name, text in _GAUGES.items():
            yield GaugeMetricFamily(_named(name), text, value=getattr(status, name))
        most = self.service.settings.max_running
        yield GaugeMetricFamily("anyorder_max_running", "Requests that may share a pass", value=most)
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(_named(name), text, value=getattr(status.metrics, name))


_NAMES = {"columns_total": "columns_max", "prefix_used": "prefix_columns_used", "prefix_total": "prefix_columns_max"}


def _named(figure: str) -> str:
    """The name of an engine's figure as Prometheus wants it: units written out, `_total` only behind what grows."""
    figure = _NAMES.get(figure, figure)
    return f"anyorder_{figure.removesuffix('_s')}_seconds" if figure.endswith("_s") else f"anyorder_{figure}"
