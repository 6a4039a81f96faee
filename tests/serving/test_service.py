"""A service: its answers are those of `anyorder.generate`, whoever else is there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine.tiny import tiny
from tests.serving.helpers import alone, assert_same, serving, work

from anyorder import Hole
from anyorder.events import Event
from anyorder.serving import Ticket

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
