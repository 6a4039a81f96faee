"""What a service has done so far, counted."""

from __future__ import annotations

from dataclasses import dataclass

from anyorder.events import Committed, Event, Finished, Scored
from anyorder.serving.ticket import Ticket


@dataclass(kw_only=True)
class Metrics:
    """Counters since the start; they only grow."""

    passes: int = 0
    """Forward passes of the engine."""
    sequence_passes: int = 0
    """Over all passes, the requests that took part."""
    scoring_passes: int = 0
    """Those of them that scored given text."""
    tokens: int = 0
    """Slots committed."""
    scored: int = 0
    """Tokens of given texts whose probability was said."""
    positions: int = 0
    """Canvas positions computed by finished requests."""
    prompt_tokens: int = 0
    """Columns of the prompts of requests that began to run."""
    cached_tokens: int = 0
    """Those of them that were found in the prefix cache."""
    prefix_hits: int = 0
    """Requests that found any."""
    submitted: int = 0
    """Works handed in, wrong ones included."""
    refused: int = 0
    """Overloaded or shutting down; wrong requests do not count."""
    started: int = 0
    """Requests that began to run."""
    finished: int = 0
    """Requests that were answered."""
    cancelled: int = 0
    """Requests that were given up."""
    expired: int = 0
    """Requests whose deadline came first."""
    failed: int = 0
    """Requests that failed in the engine, or with it."""
    evicted: int = 0
    """How often a running request gave its memory to a more urgent one, to read again later what it had."""
    engine_failures: int = 0
    """How often the engine as a whole failed."""
    queued_s: float = 0.0
    """Over all requests that began to run, the time they waited."""
    queued_max_s: float = 0.0
    """The longest of these times."""
    busy_s: float = 0.0
    """Inside passes."""

    def began(self, ticket: Ticket) -> None:
        """A request began to run."""
        waited = ticket.timing.queued_s or 0.0
        self.started += 1
        self.queued_s += waited
        self.queued_max_s = max(self.queued_max_s, waited)
        self.prompt_tokens += ticket.prompt_tokens

    def restored(self, ticket: Ticket, columns: int) -> None:
        """A request has `columns` of its prompt from others."""
        self.cached_tokens += columns - ticket.cached_tokens
        self.prefix_hits += columns > 0 == ticket.cached_tokens
        ticket.cached_tokens = columns

    def count(self, event: Event) -> None:
        """An event was handed out."""
        if isinstance(event, Committed):
            self.tokens += len(event.slots)
        if isinstance(event, Scored):
            self.scored += len(event.slots)
        if isinstance(event, Finished):
            self.positions += event.positions

    @property
    def tokens_per_forward(self) -> float:
        """TPF of a request, on average."""
        decoding = self.sequence_passes - self.scoring_passes
        return self.tokens / decoding if decoding else 0.0

    @property
    def occupancy(self) -> float:
        """Requests per pass, on average."""
        return self.sequence_passes / self.passes if self.passes else 0.0


@dataclass(frozen=True, kw_only=True)
class ServiceStatus:
    """A service at one moment."""

    alive: bool
    """The engine runs; False: not started, stopped, or dead."""
    accepting: bool
    """New work is taken."""
    running: int
    queued: int
    columns_used: int
    """Columns of keys and values that running requests hold."""
    columns_total: int
    prefix_used: int
    """Columns in the prefix cache."""
    prefix_total: int
    kv_bytes: int
    """Memory of both."""
    pass_s: float
    """Seconds that the present pass has taken so far; 0 between passes. Minutes say that the device hangs."""
    metrics: Metrics
    """A copy."""
