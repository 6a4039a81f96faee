"""From records to figures: percentiles, throughput, goodput. Pure functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anyorder.bench.records import Record
from anyorder.errors import ParameterError

PERCENTS = (50, 90, 95, 99)
LIMITS = ("ttft", "ttlt", "gap")


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of `count` values; linear between neighbours."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    largest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles | None:
        """None without any."""
        if not values:
            return None
        ordered = sorted(values)
        p50, p90, p95, p99 = (percentile(ordered, percent) for percent in PERCENTS)
        return cls(len(ordered), sum(ordered) / len(ordered), p50, p90, p95, p99, ordered[-1])


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of ascending values; linear between the two nearest ranks, as numpy's default."""
    at = (len(ordered) - 1) * percent / 100
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def parse_slo(text: str) -> dict[str, float]:
    """`ttft=0.5,ttlt=5` -> limits in seconds: to the first text, to the last, for the longest gap between pieces.

    Raises:
        ParameterError: a name is unknown or a limit no number above 0.
    """
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        try:
            limits[name] = float(value)
        except ValueError:
            limits[name] = math.nan
        if name not in LIMITS or not limits[name] > 0:
            raise ParameterError(
                f"`slo` must be limits in seconds like ttft=0.5,ttlt=5; known: {', '.join(LIMITS)}; got {text!r}",
                param="slo",
            )
    return limits


def meets(record: Record, slo: Mapping[str, float]) -> bool:
    """True if a request was answered within all limits. An answer without any text is first read at its end."""
    values = {
        "ttft": record.last_s if record.first_s is None else record.first_s,
        "ttlt": record.last_s,
        "gap": max(record.gaps_s, default=0.0),
    }
    return record.error is None and all(values[name] <= limit for name, limit in slo.items())


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Figures of one load. Failed requests count as requests and as errors; times are those of answered ones."""

    load: str
    requests: int
    answered: int
    errors: dict[str, int]
    """Kind -> how many."""
    empty: int
    """Answered without any text; they have no time to first text."""
    uncounted: int
    """Answered without a number of tokens; they are not in any figure of tokens."""
    span_s: float
    """From the first request to the end of the last, over all sessions."""
    requests_per_s: float
    """Answered."""
    tokens_per_s: float
    """Of all answers together."""
    goodput_per_s: float | None
    """Requests per second that met the SLO; None without one."""
    goodput_share: float | None
    """The part of all requests that met it, failed ones included."""
    ttft_s: Percentiles | None
    """To the first text."""
    ttlt_s: Percentiles | None
    """To the last."""
    gap_s: Percentiles | None
    """Between the pieces of an answer, of all answers together."""
    tokens_per_request_s: Percentiles | None
    """Tokens per second of one answer, its wait included."""
    tokens_per_forward: Percentiles | None
    unused_share: Percentiles | None
    """Slots that were computed and are not in the text."""
    cached_share: float | None
    """The part of all prompt tokens that an earlier request had computed."""
    late_s: float
    """How late the sender was at most: seconds say that it, not the server, was the bottleneck."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def summarise(load: str, records: Sequence[Record], slo: Mapping[str, float] | None = None) -> Summary:
    """The figures of the records of one load."""
    good = [record for record in records if record.error is None]
    counted = [(record, record.tokens) for record in good if record.tokens is not None]
    span = sum(spans(records).values())
    within = None if not slo else sum(meets(record, slo) for record in records)
    prompt = sum(record.prompt_tokens or 0 for record in good)
    return Summary(
        load=load,
        requests=len(records),
        answered=len(good),
        errors=dict(Counter(record.error for record in records if record.error is not None)),
        empty=sum(record.first_s is None for record in good),
        uncounted=len(good) - len(counted),
        span_s=span,
        requests_per_s=_per(len(good), span),
        tokens_per_s=_per(sum(tokens for _, tokens in counted), span),
        goodput_per_s=None if within is None else _per(within, span),
        goodput_share=None if within is None or not records else within / len(records),
        ttft_s=Percentiles.of([record.first_s for record in good if record.first_s is not None]),
        ttlt_s=Percentiles.of([record.last_s for record in good]),
        gap_s=Percentiles.of([gap for record in good for gap in record.gaps_s]),
        tokens_per_request_s=Percentiles.of([tokens / r.last_s for r, tokens in counted if r.last_s > 0]),
        tokens_per_forward=Percentiles.of([r.tokens_per_forward for r in good if r.tokens_per_forward is not None]),
        unused_share=Percentiles.of([r.unused_share for r in good if r.unused_share is not None]),
        cached_share=sum(r.cached_tokens or 0 for r in good) / prompt if prompt else None,
        late_s=max((record.sent_s - record.due_s for record in records), default=0.0),
    )


def spans(records: Sequence[Record]) -> dict[int, float]:
    """Session -> seconds from the first request to the end of the last."""
    found: dict[int, tuple[float, float]] = {}
    for record in records:
        begin, end = found.get(record.session, (math.inf, -math.inf))
        found[record.session] = min(begin, record.due_s), max(end, record.due_s + record.last_s)
    return {session: end - begin for session, (begin, end) in found.items()}


def _per(count: float, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
