"""Between two passes: who is admitted, who takes part, who leaves, and that nothing is left behind."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.engine.tiny import tiny
from tests.serving.helpers import alone, assert_same, work
from tests.serving.steps import Steps, columns, events_of, started
from torch import Tensor

from anyorder import AnyorderError
from anyorder.errors import Cancelled, ContextError, DeadlineExceeded, EngineFailed, ParameterError
from anyorder.serving import ServiceSettings

LONG: dict[str, Any] = {"max_new_tokens": 40, "stop_ids": ()}


def test_requests_join_and_leave_between_passes() -> None:
    model = tiny("llama")
    steps = Steps(model)
    works = [work([5, 6], max_new_tokens=length, stop_ids=()) for length in (9, 3, 5)]
    tickets = [steps.submit(works[0])]
    steps.step(2)
    tickets.append(steps.submit(works[1]))
    steps.step()
    assert started(tickets) == [True, True]
    tickets.append(steps.submit(works[2]))
    steps.step(2)
    assert [ticket.closed for ticket in tickets] == [False, True, False]
    steps.run()
    for each, ticket in zip(works, tickets, strict=True):
        assert_same(events_of(ticket), alone(model, each))
    assert steps.scheduler.metrics.passes == 9
    assert steps.scheduler.metrics.sequence_passes == 17


def test_a_cancelled_request_takes_part_in_no_further_pass() -> None:
    steps = Steps(tiny("llama"))
    gone, stays = steps.submit(work([5], **LONG)), steps.submit(work([6], **LONG))
    steps.step(3)
    gone.cancel()
    gone.cancel()
    before = steps.jobs[0].decoder.passes
    steps.step()
    assert gone.closed
    assert steps.jobs[0].decoder.passes == before
    assert steps.used == steps.jobs[1].columns
    with pytest.raises(Cancelled):
        events_of(gone)
    steps.run()
    assert_same(events_of(stays), alone(tiny("llama"), work([6], **LONG)))
    assert steps.scheduler.metrics.cancelled == 1


def test_a_request_that_is_cancelled_in_the_queue_never_runs() -> None:
    model = tiny("llama")
    steps = Steps(model, columns(model, 50))
    steps.submit(work([5], **LONG))
    waiting = steps.submit(work([6], **LONG))
    steps.step()
    waiting.cancel()
    steps.step()
    with pytest.raises(Cancelled):
        events_of(waiting)
    assert waiting.timing.queued_s is None


@pytest.mark.parametrize("room", [50, 1000])
def test_a_deadline_ends_who_waits_and_who_runs(room: int) -> None:
    model = tiny("llama")
    steps = Steps(model, columns(model, room))
    steps.submit(work([5], **LONG))
    late = steps.submit(replace(work([6], **LONG), deadline_s=2.0))
    steps.step()
    assert started([late]) == [room == 1000]
    steps.now = 2.0
    steps.step()
    with pytest.raises(DeadlineExceeded, match=r"no answer within 2\.0 s"):
        events_of(late)
    assert steps.used == 41
    assert steps.scheduler.metrics.expired == 1


def test_memory_is_never_lent_twice_and_all_comes_back() -> None:
    """Requests wait where they do not fit; the answers stay those of the requests alone."""
    model = tiny("sdar")
    steps = Steps(model, columns(model, 64))
    works = [work([4 + index, 5, 6], max_new_tokens=9 + 7 * (index % 4), temperature=1.0) for index in range(10)]
    tickets = [steps.submit(each) for each in works]
    while steps.scheduler.busy:
        steps.step()
        leases = sorted((job.lease for job in steps.scheduler.running.values() if job.lease), key=lambda o: o.start)
        ends = [lease.start + lease.columns for lease in leases]
        assert all(end <= after.start for end, after in zip(ends, leases[1:], strict=False))
        assert steps.used == sum(lease.columns for lease in leases) <= 64
    assert steps.used == 0
    for each, ticket in zip(works, tickets, strict=True):
        assert_same(events_of(ticket), alone(model, each))


def test_what_can_never_fit_is_refused_at_once() -> None:
    model = tiny("llama")
    with pytest.raises(ContextError, match=r"need 41 columns .* this service has 40 .* `kv_bytes`"):
        Steps(model, columns(model, 40)).submit(work([5], **LONG))
    with pytest.raises(ContextError, match=r"feeds up to 13 tokens; .* computes 12 at most"):
        Steps(tiny("llada"), ServiceSettings(pass_tokens=12)).submit(work([5]))
    with pytest.raises(ParameterError, match="one token's keys and values take 256"):
        Steps(model, ServiceSettings(kv_bytes=255))


def test_the_tokens_of_a_pass_are_bounded() -> None:
    """Three canvases of 13 slots, 30 tokens per pass: two share a pass, the third waits."""
    model = tiny("llada")
    steps = Steps(model, ServiceSettings(kv_bytes=1 << 18, pass_tokens=30))
    works = [work([5 + index], stop_ids=()) for index in range(3)]
    tickets = [steps.submit(each) for each in works]
    steps.step()
    assert started(tickets) == [True, True, False]
    steps.run()
    for each, ticket in zip(works, tickets, strict=True):
        assert_same(events_of(ticket), alone(model, each))


def test_the_urgent_go_first() -> None:
    steps = Steps(tiny("llama"), ServiceSettings(kv_bytes=1 << 18, max_running=1))
    tickets = [steps.submit(work([5], priority=priority)) for priority in ("batch", "normal", "realtime")]
    ended: list[int] = []
    while steps.scheduler.busy:
        steps.step()
        ended += [index for index, ticket in enumerate(tickets) if ticket.closed and index not in ended]
    assert ended == [2, 1, 0]


def test_an_urgent_request_takes_the_turn_of_a_running_one() -> None:
    """And the other goes on where it was."""
    model = tiny("llama")
    steps = Steps(model, ServiceSettings(kv_bytes=1 << 18, max_running=1))
    slow = work([5], priority="batch", **LONG)
    first = steps.submit(slow)
    steps.step(4)
    urgent = steps.submit(work([6], priority="realtime", max_new_tokens=3))
    steps.step(3)
    assert urgent.closed
    assert steps.jobs[0].decoder.passes == 4
    steps.run()
    assert_same(events_of(first), alone(model, slow))


@pytest.mark.parametrize("priority", ["normal", "batch"])
def test_nobody_starves(priority: str) -> None:
    """However many urgent requests come, a patient one is answered when its patience is over."""
    settings = ServiceSettings(kv_bytes=1 << 18, max_running=1, normal_patience_s=3.0, batch_patience_s=8.0)
    steps = Steps(tiny("llama"), settings)
    steps.submit(work([5], priority="realtime", max_new_tokens=2, stop_ids=()))
    patient = steps.submit(work([6], priority=priority, max_new_tokens=2, stop_ids=()))
    while not patient.closed:
        steps.step()
        steps.now += 0.5  # a request takes a second
        steps.submit(work([5], priority="realtime", max_new_tokens=2, stop_ids=()))
        assert steps.now < 2 + 2 * settings.patience(steps.jobs[1].work.priority)
    assert patient.timing.total_s is not None
    assert patient.timing.total_s >= settings.patience(steps.jobs[1].work.priority)


def test_a_large_request_is_not_passed_over_for_small_ones() -> None:
    model = tiny("llama")
    steps = Steps(model, columns(model, 60))
    steps.submit(work([5], max_new_tokens=20, stop_ids=()))
    large = steps.submit(work([5], max_new_tokens=55, stop_ids=()))
    small = steps.submit(work([5], max_new_tokens=5, stop_ids=()))
    steps.step(5)
    assert started([large, small]) == [False, False]
    steps.step(20)
    assert started([large, small]) == [True, False]


def test_a_request_that_fails_in_the_engine_leaves_the_others_alone() -> None:
    model = tiny("llama")
    steps = Steps(model)
    broken, fine = steps.submit(work([5], **LONG)), steps.submit(work([6], **LONG))
    steps.step(2)
    decoder = steps.jobs[0].decoder

    def nan(rows: list[Tensor]) -> Tensor:
        return type(decoder).decide(decoder, [torch.full_like(rows[0], torch.nan)])

    decoder.decide = nan  # type: ignore[method-assign]
    steps.run()
    with pytest.raises(EngineFailed, match="the model's logits are nan") as failed:
        events_of(broken)
    assert isinstance(failed.value.__cause__, AnyorderError)
    assert_same(events_of(fine), alone(model, work([6], **LONG)))
    assert steps.used == 0


def test_what_other_errors_say_stays_inside() -> None:
    steps = Steps(tiny("llama"))
    ticket = steps.submit(work([5]))

    def plan() -> Any:
        raise RuntimeError("at 0x7f3a")

    steps.jobs[0].decoder.plan = plan  # type: ignore[method-assign]
    steps.run()
    with pytest.raises(EngineFailed, match=r"in the engine: RuntimeError$"):
        events_of(ticket)


def test_nothing_holds_on_to_requests_that_are_over() -> None:
    steps = Steps(tiny("llama"))
    tickets = [steps.submit(work([5 + index])) for index in range(5)]
    tickets[2].cancel()
    steps.run()
    jobs = [weakref.ref(job) for job in steps.jobs]
    steps.jobs.clear()
    gc.collect()
    assert [job() for job in jobs] == [None] * 5
