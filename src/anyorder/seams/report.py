"""What a seam report holds: plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from anyorder.events import Event


@dataclass(frozen=True, slots=True)
class Pair:
    """Two slots that one pass committed."""

    slots: tuple[int, int]
    ids: tuple[int, int]
    gain: float
    """Nats: how much likelier each token becomes by knowing of the other, log p(b | a) - log p(b), the mean of both
    directions. 0: they are independent. Below 0: they contradict each other. For a consistent model it is the
    pointwise mutual information."""


@dataclass(frozen=True, slots=True)
class PassGap:
    """A pass that committed several slots of the text."""

    pass_index: int
    slots: tuple[int, ...]
    product: float
    """Nats: log-probability of the committed tokens as they were drawn, each by itself."""
    chain: float
    """Nats: log-probability of the same tokens one at a time, the most confident first, each knowing those before."""
    pairs: tuple[Pair, ...]
    """All pairs, those that contradict each other most first."""

    @property
    def gap(self) -> float:
        """Nats: what the product of marginals misses. Its mean over texts of the joint is the total correlation."""
        return self.chain - self.product

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, with the gap."""
        return {**asdict(self), "gap": self.gap}


@dataclass(frozen=True, slots=True)
class Seam(Event):
    """What was found of one pass."""

    gap: PassGap

    def as_dict(self) -> dict[str, Any]:
        """See `Event.as_dict`."""
        return {"type": "seam", "request": self.request, **self.gap.as_dict()}


@dataclass(frozen=True, kw_only=True)
class SeamReport:
    """Every pass of a request that committed several slots of the text; other passes have no seams."""

    passes: tuple[PassGap, ...]
    forwards: int
    """Windows that were computed to find out."""

    @property
    def gap(self) -> float:
        """Nats over all passes: below 0, the text is less likely one slot at a time than as it was drawn."""
        return sum(each.gap for each in self.passes)

    @property
    def worst_gap(self) -> float:
        """Nats: the lowest gap of a pass; 0 if no pass committed several slots."""
        return min((each.gap for each in self.passes), default=0.0)

    def worst(self, count: int = 5, *, below: float = -0.1) -> list[tuple[PassGap, Pair]]:
        """The pairs that contradict each other most, over all passes.

        Args:
            below: nats; pairs with a higher gain are no seams.
        """
        found = sorted(((p, pair) for p, pair in self._pairs() if pair.gain < below), key=lambda entry: entry[1].gain)
        return found[:count]

    def _pairs(self) -> Iterator[tuple[PassGap, Pair]]:
        return ((each, pair) for each in self.passes for pair in each.pairs)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, with the derived figures."""
        passes = [each.as_dict() for each in self.passes]
        return {"gap": self.gap, "worst_gap": self.worst_gap, "forwards": self.forwards, "passes": passes}
