"""Clients take turns: whoever queues much waits for it, and nobody else does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st
from tests.engine.tiny import tiny
from tests.serving.helpers import alone, assert_same, work
from tests.serving.steps import Steps, events_of

from anyorder.serving import Priority, ServiceSettings, Ticket, Work
from anyorder.serving.job import Job
from anyorder.serving.queue import FairQueue

ONE_PLACE = ServiceSettings(kv_bytes=1 << 18, max_running=1)


def of(client: str, token: int = 5, priority: Any = "normal") -> Work:
    return replace(work([token], max_new_tokens=2, stop_ids=(), priority=priority), salt=client)


def ends(steps: Steps, tickets: dict[str, Ticket]) -> list[str]:
    """The names of the tickets in the order in which they end."""
    ended: list[str] = []
    while steps.scheduler.busy:
        steps.step()
        ended += [name for name, ticket in tickets.items() if ticket.closed and name not in ended]
    return ended


def test_a_hundred_requests_of_one_client_do_not_hold_up_another() -> None:
    """The newcomer's requests alternate with those that came first; the running one ends first."""
    steps = Steps(tiny("llama"), ONE_PLACE)
    tickets = {f"much {index}": steps.submit(of("much")) for index in range(100)}
    steps.step()
    steps.now = 30.0  # the patience of all of them is over
    tickets |= {f"little {index}": steps.submit(of("little", 6)) for index in range(3)}
    order = ends(steps, tickets)
    assert order[:7] == ["much 0", "little 0", "much 1", "little 1", "much 2", "little 2", "much 3"]
    assert order[7:] == [f"much {index}" for index in range(4, 100)]
    assert_same(events_of(tickets["little 2"]), alone(tiny("llama"), of("little", 6)))


def test_a_client_that_gave_up_is_not_punished() -> None:
    """Fifty requests that were cancelled before they ran cost no turns."""
    steps = Steps(tiny("llama"), ONE_PLACE)
    running = steps.submit(of("other"))
    steps.step()
    for ticket in [steps.submit(of("much")) for _ in range(50)]:
        ticket.cancel()
    steps.step()
    assert running.closed
    tickets = {"other 0": steps.submit(of("other")), "other 1": steps.submit(of("other"))}
    tickets["much"] = steps.submit(of("much"))
    assert ends(steps, tickets).index("much") <= 1


def test_a_turn_does_not_outrank_priority() -> None:
    steps = Steps(tiny("llama"), ONE_PLACE)
    tickets = {f"urgent {index}": steps.submit(of("much", priority="realtime")) for index in range(4)}
    tickets["patient"] = steps.submit(of("little"))
    assert ends(steps, tickets)[-1] == "patient"


def test_who_went_in_a_turn_is_not_pushed_aside_behind_it() -> None:
    """An urgent request makes the newcomer rest; then it goes on, before the older ones of the other client."""
    steps = Steps(tiny("llama"), ONE_PLACE)
    tickets = {f"much {index}": steps.submit(of("much")) for index in range(5)}
    steps.step()
    tickets["little"] = steps.submit(of("little"))
    steps.step(2)
    assert tickets["little"].timing.queued_s is not None
    tickets["urgent"] = steps.submit(of("third", priority="realtime"))
    assert ends(steps, tickets)[:3] == ["much 0", "urgent", "little"]


@st.composite
def traffic(draw: st.DrawFn) -> list[tuple[str, Any] | None]:
    """Jobs that come, as (client, priority), and None where the first of the queue is taken."""
    job = st.tuples(st.sampled_from("abcd"), st.sampled_from(get_args(Priority)))
    return draw(st.lists(st.none() | job, max_size=60))


def job_of(number: int, client: str, priority: Any, now: float) -> Job:
    steps = Steps(tiny("llama"))
    steps.now = now
    steps.jobs = [None] * number  # type: ignore[list-item]  # numbers are counted from here
    steps.submit(of(client, priority=priority))
    return steps.jobs[-1]


@given(traffic())
def test_the_bound_holds_whatever_comes(happening: list[tuple[str, Any] | None]) -> None:
    """Between its coming and its turn, a job sees at most one job per round of each other client of its priority, its
    own client's in their order, and of other priorities only those that are due before it."""
    queue, coming = FairQueue(), list[tuple[Job, float, int]]()
    taken: list[Job] = []
    for number, what in enumerate([*happening, *[None] * len(happening)]):
        if what is not None:
            job = job_of(number, *what, now=number / 4)
            ahead = sum((o.work.priority, o.work.salt) == (job.work.priority, job.work.salt) for o in queue)
            due = job.due
            queue.push(job)
            coming.append((job, due, ahead))
        elif len(queue):
            first = queue.first
            assert queue.pop() is first
            assert first is not None
            taken.append(first)
    assert len(queue) == 0
    assert sorted(job.number for job in taken) == [job.number for job, _, _ in coming]
    dues = {job.number: due for job, due, _ in coming}
    for job, due, ahead in coming:
        before = [o for o in taken[: taken.index(job)] if o.number > job.number]
        for client in set("abcd") - {job.work.salt}:
            overtakers = [o for o in before if (o.work.priority, o.work.salt) == (job.work.priority, client)]
            assert len(overtakers) <= ahead + 1
        assert not [o for o in before if (o.work.priority, o.work.salt) == (job.work.priority, job.work.salt)]
        others = [o for o in before if o.work.priority != job.work.priority]
        rivals = [o for o in others if dues[o.number] > due]
        # one of another priority overtakes when it is due first, or takes the turn of one that is
        assert all(
            any(dues[p.number] <= due and p.work.priority == o.work.priority for p, _, _ in coming) for o in rivals
        )
