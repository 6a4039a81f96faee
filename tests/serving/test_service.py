"""A service: its answers are those of `anyorder.generate`, whoever else is there."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.tiny import tiny
from tests.serving.helpers import alone, assert_same, serving, work
from torch import Tensor

from anyorder import Hole
from anyorder.errors import Cancelled, ContextError, EngineFailed, Overloaded, ParameterError, Unavailable
from anyorder.events import Committed, Event
from anyorder.ngrams import NgramTable
from anyorder.ngrams.weights import PRIOR
from anyorder.serving import Service, ServiceSettings, Ticket

RUNS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {"mode": "causal", "draft": "none"}),
    ("llama", {"mode": "causal", "draft": "ngram"}),
    ("llama", {"mode": "causal", "draft": "lookup", "temperature": 1.0, "seed": 5}),
    ("llama", {"mode": "causal", "cache": "none"}),
    ("llama", {"mode": "block", "threshold": 0.1, "temperature": 1.0}),
    ("sdar", {"threshold": 0.1}),
    ("sdar", {"temperature": 1.0, "seed": 3}),
    ("fast_dllm_v2", {"threshold": 0.06, "temperature": 1.0}),
    ("fast_dllm_v2", {"threshold": 0.06, "cache": "sub_block", "sub_block_length": 4}),
    ("llada", {"threshold": 0.06}),
    ("llada", {"threshold": 0.06, "cache": "dual", "block_length": 4}),
    ("dream", {"policy": "origin", "steps": 6, "temperature": 1.0}),
]
PROMPTS = [[4 + index, *range(5, 5 + index % 5)] for index in range(7)]


async def gather(tickets: list[Ticket]) -> list[list[Event]]:
    async def collect(ticket: Ticket) -> list[Event]:
        return [event async for event in ticket]

    return await asyncio.gather(*map(collect, tickets))


@pytest.mark.parametrize(("family", "params"), RUNS)
def test_answers_are_those_of_the_requests_alone(family: str, params: dict[str, Any]) -> None:
    model = tiny(family)
    works = [work(prompt, **params) for prompt in PROMPTS]
    with serving(model) as service:
        answers = asyncio.run(gather([service.submit(each) for each in works]))
    for each, events in zip(works, answers, strict=True):
        assert_same(events, alone(model, each))


def test_samples_holes_and_modes_share_a_pass() -> None:
    model = tiny("fast_dllm_v2")
    works = [
        work([5, Hole(2), 7], max_new_tokens=4),
        work([5, 6, 7], mode="causal", temperature=1.0),
        *(work([5, 6, 7], temperature=1.0, sample=sample) for sample in range(3)),
    ]
    with serving(model) as service:
        answers = asyncio.run(gather([service.submit(each) for each in works]))
        assert service.status().metrics.occupancy > 1
    for each, events in zip(works, answers, strict=True):
        assert_same(events, alone(model, each))


def test_a_thread_reads_a_ticket_like_a_coroutine() -> None:
    model = tiny("sdar")
    with serving(model) as service:
        ticket = service.submit(work([5, 6]))
        events = list(ticket)
    assert_same(events, alone(model, work([5, 6])))
    timing = ticket.timing
    assert timing.queued_s is not None
    assert timing.first_pass_s is not None
    assert timing.first_commit_s is not None
    assert timing.total_s is not None
    assert 0 <= timing.queued_s <= timing.first_pass_s <= timing.total_s


class Gate:
    """Stands in front of a service's forward passes: each waits to be let through, and can be made to fail."""

    def __init__(self, service: Service) -> None:
        self.runner = service._scheduler.runner
        self.forward = self.runner.forward
        self.passes = threading.Semaphore(0)
        self.failure: BaseException | None = None
        self.runner.forward = self  # type: ignore[method-assign]

    def __call__(self, *args: Any) -> list[Tensor]:
        self.passes.acquire()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return self.forward(*args)


def test_who_leaves_the_iteration_has_cancelled() -> None:
    model = tiny("llama")

    async def leave(ticket: Ticket) -> None:
        stream = aiter(ticket)
        async for event in stream:
            if isinstance(event, Committed):
                break
        await stream.aclose()  # type: ignore[attr-defined]

    with serving(model) as service:
        ticket = service.submit(work([5], max_new_tokens=80, stop_ids=()))
        asyncio.run(leave(ticket))
        assert ticket.cancelled
        assert service.drain(60)
        counts = service.status().metrics
        assert counts.cancelled + counts.finished == 1


def test_a_loop_that_is_gone_harms_nobody() -> None:
    model = tiny("llama")
    with serving(model) as service:
        gate = Gate(service)
        ticket = service.submit(work([5], max_new_tokens=20, stop_ids=()))

        async def start() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    async for _ in ticket:
                        pass

        asyncio.run(start())
        gate.passes.release(100)
        assert_same(list(service.submit(work([5]))), alone(model, work([5])))


def test_a_full_queue_refuses() -> None:
    with serving(tiny("llama"), ServiceSettings(kv_bytes=1 << 18, max_running=1, max_queued=2)) as service:
        gate = Gate(service)
        tickets = [service.submit(work([5]))]
        while not service.status().running:
            pass
        tickets += [service.submit(work([5])) for _ in range(2)]
        with pytest.raises(Overloaded, match="2 requests are waiting, and no more may; try again later"):
            service.submit(work([5]))
        assert service.status().metrics.refused == 1
        gate.passes.release(1000)
        for ticket in tickets:
            assert_same(list(ticket), alone(tiny("llama"), work([5])))
        list(service.submit(work([5])))


def test_wrong_work_is_refused_before_it_waits() -> None:
    with serving(tiny("llama")) as service:
        with pytest.raises(ParameterError, match="token id 99 is outside the vocabulary"):
            service.submit(work([99]))
        with pytest.raises(ContextError, match="together 501"):
            service.submit(work([5], max_new_tokens=500))
        with pytest.raises(ParameterError, match="has no meaning in mode 'causal'"):
            service.submit(work([5], mode="causal", threshold=0.5))
        assert service.status().queued == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"priority": "fast"}, "`priority` must be one of realtime, normal, batch, got 'fast'"),
        ({"deadline_s": 0.0}, "`deadline_s` must be above 0"),
        ({"deadline_s": float("nan")}, "`deadline_s` must be above 0"),
        ({"sample": -1}, "`sample` must be a whole number from 0"),
    ],
)
def test_work_is_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        replace(work([5]), **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prefix_share": 1.0}, r"`prefix_share` must be in \[0, 1\), got 1.0"),
        ({"max_running": 0}, "`max_running` must be a whole number of at least 1, got 0"),
        ({"restarts": -1}, "`restarts` must be a whole number of at least 0, got -1"),
        ({"batch_patience_s": -0.1}, "`batch_patience_s` must be seconds, at least 0"),
        ({"kv_bytes": 1.5, "max_queued": True}, "`kv_bytes` .*; `max_queued` .* got True"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ServiceSettings(**changes)


def test_what_goes_on_with_an_answer_is_let_in() -> None:
    """Neither a full queue nor a drain cuts an answer in two; a service that is stopped takes nothing."""
    onward = replace(work([4, 5], max_new_tokens=4), continues=True)
    with serving(tiny("llama"), ServiceSettings(kv_bytes=1 << 18, max_running=1, max_queued=1)) as service:
        gate = Gate(service)
        tickets = [service.submit(work([5]))]
        while not service.status().running:
            pass
        tickets.append(service.submit(work([5])))
        with pytest.raises(Overloaded):
            service.submit(work([5]))
        tickets.append(service.submit(onward))
        assert not service.drain(0.01)
        with pytest.raises(Unavailable):
            service.submit(work([5]))
        tickets.append(service.submit(onward))
        gate.passes.release(1000)
        assert service.drain(60)
        assert all(ticket.closed for ticket in tickets)
    with pytest.raises(Unavailable):
        service.submit(onward)


def test_draining_ends_what_runs_and_takes_nothing_new() -> None:
    model = tiny("llama")
    with serving(model) as service:
        gate = Gate(service)
        tickets = [service.submit(work([5 + index])) for index in range(3)]
        assert not service.drain(0.01)
        with pytest.raises(Unavailable, match="is shutting down"):
            service.submit(work([5]))
        gate.passes.release(1000)
        assert service.drain(60)
        for index, ticket in enumerate(tickets):
            assert_same(list(ticket), alone(model, work([5 + index])))


def test_stopping_ends_everybody() -> None:
    with serving(tiny("llama")) as service:
        gate = Gate(service)
        tickets = [service.submit(work([5], max_new_tokens=90, stop_ids=())) for _ in range(3)]
        stopping = threading.Thread(target=service.stop)
        stopping.start()
        while not service._stopping:
            pass
        gate.passes.release(1000)
        stopping.join()
        for ticket in tickets:
            with pytest.raises(Unavailable, match="was stopped"):
                list(ticket)


def test_a_service_that_was_not_started_takes_nothing() -> None:
    service = Service(tiny("llama"))
    assert not service.status().alive
    with pytest.raises(Unavailable, match="not started"):
        service.submit(work([5]))


def test_a_dead_engine_fails_everybody_and_says_so() -> None:
    with serving(tiny("llama"), ServiceSettings(kv_bytes=1 << 18, max_running=2, restarts=0)) as service:
        gate = Gate(service)
        tickets = [service.submit(work([5])) for _ in range(4)]
        gate.failure = RuntimeError("no kernel image at 0x7f")
        gate.passes.release()
        for ticket in tickets:
            with pytest.raises(EngineFailed, match=r"the engine failed \(RuntimeError\); send the request again"):
                list(ticket)
        assert service.drain(60)
        service.stop()
        status = service.status()
        assert (status.alive, status.accepting, status.metrics.failed, status.columns_used) == (False, False, 4, 0)
        with pytest.raises(Unavailable, match="or has failed"):
            service.submit(work([5]))


def test_an_engine_is_started_again() -> None:
    """What was kept may be damaged and is forgotten."""
    model = tiny("llama")
    with serving(model, ServiceSettings(kv_bytes=1 << 18, restarts=2)) as service:
        gate = Gate(service)
        gate.passes.release(1000)
        for _ in range(4):  # a finished answer in between makes the count start anew
            each = work([5] * 40, mode="causal", stop_ids=())
            ticket = service.submit(each)
            assert_same(list(ticket), alone(model, each))
            assert ticket.cached_tokens == 0
            gate.failure = MemoryError()
            with pytest.raises(EngineFailed):
                list(service.submit(work([6])))
        status = service.status()
        assert (status.alive, status.accepting, status.metrics.engine_failures) == (True, True, 4)
        for _ in range(2):
            gate.failure = MemoryError()
            with pytest.raises(EngineFailed):
                list(service.submit(work([6])))
        service.drain(60)
        assert not service.status().accepting


@settings(max_examples=5, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.booleans()), min_size=1, max_size=12))
def test_many_threads_ask_at_once(asked: list[tuple[int, bool]]) -> None:
    model = tiny("fast_dllm_v2")
    with serving(model) as service, ThreadPoolExecutor(8) as threads:

        def ask(number: int, leaves: bool) -> list[Event] | None:
            ticket = service.submit(work([5, 6, number + 4], temperature=1.0, sample=number))
            if leaves:
                ticket.cancel()
            with suppress(Cancelled):
                return list(ticket)

        answers = list(threads.map(ask, *zip(*asked, strict=True)))
    for (number, leaves), events in zip(asked, answers, strict=True):
        assert leaves or events is not None
        if events is not None:
            assert_same(events, alone(model, work([5, 6, number + 4], temperature=1.0, sample=number)), passes=False)


def test_drafts_that_nobody_asked_for_need_not_fit() -> None:
    """A lone request of a model with a table drafts by itself, where there is room for drafts."""
    table = NgramTable.of([((), (5, 6, 7, 8, 9) * 9)], PRIOR)
    model = replace(tiny("llama"), ngrams=table)
    for columns, draft in ((40, "none"), (200, "ngram")):
        with serving(model, ServiceSettings(kv_bytes=columns * 256, prefix_share=0.0)) as service:
            ticket = service.submit(work([5]))
            assert ticket.params.draft == draft
            assert [e.ids for e in ticket if isinstance(e, Committed)] != []
