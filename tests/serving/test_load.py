"""Many requests: nothing is lost, doubled or mixed up, and nothing piles up."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.engine.tiny import tiny
from tests.serving.helpers import alone, assert_same, serving, work

import anyorder
from anyorder.errors import Cancelled
from anyorder.events import Event
from anyorder.prompt import encode_prompt
from anyorder.serving import Service, ServiceSettings, Ticket, Work


def test_two_thousand_requests_leave_nothing_behind() -> None:
    """Every fifth is given up. Objects are counted: 500 requests may not add what 1500 more do not."""
    model = tiny("sdar")
    settings = ServiceSettings(kv_bytes=1 << 17, max_queued=64)

    def ask(service: Service, number: int) -> None:
        ticket = service.submit(work([4 + number % 16, 5 + number % 7], max_new_tokens=4))
        if number % 5 == 0:
            ticket.cancel()
        try:
            list(ticket)
        except Cancelled:
            assert number % 5 == 0

    with serving(model, settings) as service, ThreadPoolExecutor(8) as threads:
        counts: list[int] = []
        for begin, end in ((0, 500), (500, 2000)):
            list(threads.map(lambda number: ask(service, number), range(begin, end)))
            service.status()
            gc.collect()
            counts.append(len(gc.get_objects()))
        figures = service.status().metrics
    assert figures.finished + figures.cancelled == 2000
    assert counts[1] < counts[0] + 500


@pytest.mark.slow
def test_sixty_four_streams_of_the_embedded_model() -> None:
    model = anyorder.load("smollm2")
    # top_k: among thousands of tokens with a chance of a millionth the last digit of a sum decides who is drawn
    params = anyorder.DecodeParams(max_new_tokens=12, temperature=1.0, top_k=8, draft="none")
    texts = ["The capital of France is", "Once upon a time", "To make bread, first", "def add(a, b):"]
    prompts = [encode_prompt(model, text) for text in texts]
    works = [Work(prompt=prompts[index % 4], params=params, sample=index) for index in range(64)]

    async def read(ticket: Ticket) -> list[Event]:
        return [event async for event in ticket]

    async def read_all(service: Service) -> list[list[Event]]:
        return await asyncio.gather(*[read(service.submit(each)) for each in works])

    with serving(model, ServiceSettings(max_running=24)) as service:
        answers = asyncio.run(read_all(service))
        assert service.status().metrics.occupancy > 8
    for each, events in zip(works, answers, strict=True):
        assert_same(events, alone(model, each), passes=False, tolerance=1e-3)
