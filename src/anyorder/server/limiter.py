"""Counts what clients ask for against what they may: buckets that fill again, and requests that are under way.

Pure but for the clock it is given. Everything happens on the server's event loop, so there are no locks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from anyorder.server.keys import Limits

Clock = Callable[[], float]
_MINUTE = 60.0
_CONCURRENT_WAIT_S = 1.0  # nobody knows when a running request ends


@dataclass
class LimitExceeded(Exception):
    """A client asked for more than it may."""

    message: str
    retry_after_s: float | None
    """None: it never will be let through."""


@dataclass
class Bucket:
    """Up to `per_minute` pieces at once; what is taken comes back evenly, all of it within a minute.

    May be overdrawn by pieces that turn out to be more than were taken for them.
    """

    per_minute: int
    now: Clock
    level: float = field(init=False)
    seen_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.level, self.seen_at = float(self.per_minute), self.now()

    @property
    def rate(self) -> float:
        """Pieces that come back per second."""
        return self.per_minute / _MINUTE

    def remaining(self) -> float:
        """Pieces that are there; below 0 if it is overdrawn."""
        now = self.now()
        self.level = min(self.level + max(now - self.seen_at, 0.0) * self.rate, float(self.per_minute))
        self.seen_at = max(now, self.seen_at)
        return self.level

    def wait_s(self, count: float) -> float:
        """Seconds until `count` pieces are there; inf if they never are."""
        if count > self.per_minute:
            return math.inf
        return max(count - self.remaining(), 0.0) / self.rate

    def take(self, count: float) -> None:
        """Take pieces, or give back a negative number of them."""
        self.level = min(self.remaining() - count, float(self.per_minute))


class Account:
    """What one client has asked for."""

    def __init__(self, limits: Limits, now: Clock, name: str = "") -> None:
        self.name = name
        self.limits = limits
        self.requests = Bucket(limits.requests_per_minute, now) if limits.requests_per_minute else None
        self.tokens = Bucket(limits.tokens_per_minute, now) if limits.tokens_per_minute else None
        self.running = 0


@dataclass(eq=False)
class Lease:
    """One request's claim on an account. Whoever made it closes it, however the request ended."""

    account: Account
    salt: str = ""
    """Tells clients apart where they share memory."""
    _running: bool = False
    _reserved: float = 0.0

    def begin(self) -> None:
        """Count the request.

        Raises:
            LimitExceeded: too many per minute, or too many at once; nothing was counted.
        """
        account = self.account
        limit = account.limits.concurrent_requests
        if limit and account.running >= limit:
            message = f"{account.running} requests of this client are being answered, and no more than {limit} may be"
            raise LimitExceeded(message, _CONCURRENT_WAIT_S)
        _take(account.requests, 1, "requests")
        account.running += 1
        self._running = True

    def reserve(self, tokens: int) -> None:
        """Take tokens for a prompt and the longest answer.

        Raises:
            LimitExceeded: they are not there; nothing was taken.
        """
        _take(self.account.tokens, tokens, "tokens")
        self._reserved += tokens

    def settle(self, used: int) -> None:
        """The request came to `used` tokens: the rest of the reserved ones goes back."""
        if self.account.tokens is not None:
            self.account.tokens.take(used - self._reserved)
        self._reserved = 0.0

    def close(self) -> None:
        """The request is over; what was reserved and never settled was not used. Any number of times."""
        if self._reserved:
            self.settle(0)
        if self._running:
            self.account.running -= 1
            self._running = False


def _take(bucket: Bucket | None, count: int, unit: str) -> None:
    if bucket is None:
        return
    wait = bucket.wait_s(count)
    if math.isinf(wait):
        message = f"the request needs {count} {unit}, and this client may have {bucket.per_minute} per minute"
        raise LimitExceeded(f"{message}: ask for less", None)
    if wait > 0:
        left = max(math.floor(bucket.remaining()), 0)
        message = f"this client may have {bucket.per_minute} {unit} per minute; {left} are left, and {count} are needed"
        raise LimitExceeded(f"{message}: try again in {wait:.3g} s", wait)
    bucket.take(count)
