"""Limits per client, counted: what is let through, what is not, and when it will be."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.server.keys import Limits
from anyorder.server.limiter import Account, Bucket, Lease, LimitExceeded
from anyorder.server.quota import duration


@dataclass
class Hands:
    """A clock that is set by hand."""

    at: float = 1000.0

    def __call__(self) -> float:
        return self.at


def let_through(lease: Lease, tokens: int) -> bool:
    try:
        lease.begin()
        lease.reserve(tokens)
    except LimitExceeded:
        lease.close()
        return False
    return True


Step = tuple[float, int]
STEPS = st.lists(st.tuples(st.floats(0, 90), st.integers(1, 40)), max_size=40)


@given(STEPS, st.integers(1, 30))
def test_no_stretch_of_time_gives_more_than_its_share(steps: list[Step], per_minute: int) -> None:
    """Between any two moments: a full bucket, and what came back meanwhile."""
    clock = Hands()
    bucket = Bucket(per_minute, clock)
    taken: list[tuple[float, int]] = []
    for pause, count in steps:
        clock.at += pause
        if bucket.wait_s(count) == 0:
            bucket.take(count)
            taken.append((clock.at, count))
    for first, (begin, _) in enumerate(taken):
        for last, (end, _) in enumerate(taken[first:], first):
            given = sum(count for _, count in taken[first : last + 1])
            assert given <= per_minute * (1 + (end - begin) / 60) + 1e-6


@given(STEPS, st.integers(1, 30))
def test_whoever_waits_as_told_is_let_through_and_not_earlier(steps: list[Step], per_minute: int) -> None:
    clock = Hands()
    account = Account(Limits(tokens_per_minute=per_minute), clock)
    for pause, count in steps:
        clock.at += pause
        lease = Lease(account)
        try:
            lease.reserve(count)
        except LimitExceeded as told:
            if told.retry_after_s is None:
                assert count > per_minute
                continue
            began = clock.at
            clock.at = began + told.retry_after_s * 0.99 - 1e-6
            with pytest.raises(LimitExceeded):
                lease.reserve(count)
            clock.at = began + told.retry_after_s + 1e-6
            lease.reserve(count)
        lease.settle(count)


@given(st.lists(st.tuples(st.sampled_from(["begin", "settle", "close"]), st.integers(0, 50)), max_size=60))
def test_whatever_happens_nothing_is_left_counted(steps: list[tuple[str, int]]) -> None:
    clock = Hands()
    account = Account(Limits(requests_per_minute=1000, tokens_per_minute=100, concurrent_requests=3), clock)
    open_leases: list[Lease] = []
    for what, number in steps:
        if what == "begin":
            lease = Lease(account)
            if let_through(lease, number):
                open_leases.append(lease)
        elif open_leases:
            lease = open_leases[number % len(open_leases)]
            if what == "settle":
                lease.settle(number)
            else:
                open_leases.remove(lease)
                lease.close()
                lease.close()
        assert account.running == len(open_leases) <= 3
        assert account.tokens is not None
        assert account.tokens.remaining() <= 100
    for lease in open_leases:
        lease.close()
    clock.at += 3000
    assert account.running == 0
    assert account.tokens is not None
    assert account.tokens.remaining() == 100


def test_tokens_that_were_not_used_come_back_at_once_and_others_are_owed() -> None:
    account = Account(Limits(tokens_per_minute=100), Hands())
    bucket = account.tokens
    assert bucket is not None
    lease = Lease(account)
    lease.reserve(80)
    lease.settle(30)
    assert bucket.remaining() == 70
    lease.settle(90)
    assert bucket.remaining() == -20
    lease.close()
    failed = Lease(account)
    bucket.take(-100)
    failed.reserve(50)
    failed.close()
    assert bucket.remaining() == 80


def test_what_is_refused_says_which_limit() -> None:
    clock = Hands()
    account = Account(Limits(requests_per_minute=2, tokens_per_minute=60, concurrent_requests=1), clock)
    running = Lease(account)
    running.begin()
    with pytest.raises(LimitExceeded) as busy:
        Lease(account).begin()
    assert busy.value.message == "1 requests of this client are being answered, and no more than 1 may be"
    running.close()
    Lease(account).begin()
    account.running = 0
    with pytest.raises(LimitExceeded) as often:
        Lease(account).begin()
    assert "2 requests per minute; 0 are left, and 1 are needed: try again in 30 s" in often.value.message
    assert (often.value.retry_after_s, account.running) == (30, 0)
    with pytest.raises(LimitExceeded) as large:
        Lease(account).reserve(61)
    assert large.value.message == "the request needs 61 tokens, and this client may have 60 per minute: ask for less"
    assert large.value.retry_after_s is None


def test_no_limit_counts_nothing() -> None:
    account = Account(Limits(), Hands())
    assert all(let_through(Lease(account), 10**12) for _ in range(100))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0ms"), (0.0001, "1ms"), (0.5, "500ms"), (1, "1s"), (1.25, "1.25s"), (360, "6m0s")]
)
def test_times_are_written_as_clients_read_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
