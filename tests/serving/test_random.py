"""Whatever comes, goes and waits: every answer is that of the request alone, and nothing is left behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine import requests
from tests.engine.tiny import tiny
from tests.serving.helpers import alone, assert_same, work
from tests.serving.steps import Steps, events_of

from anyorder import AnyorderError, DecodeParams
from anyorder.errors import Cancelled, ContextError, DeadlineExceeded
from anyorder.serving import ServiceSettings, Work

MODES: dict[str, list[dict[str, Any]]] = {
    "llama": [
        {"mode": "causal"},
        {"mode": "causal", "draft": "ngram"},
        {"mode": "causal", "draft": "lookup"},
        {"mode": "block", "threshold": 0.1},
    ],
    "fast_dllm_v2": [
        {"threshold": 0.06},
        {"threshold": 0.06, "block_length": 16},
        {"mode": "causal", "draft": "ngram"},
        {"cache": "sub_block", "sub_block_length": 4},
    ],
    "llada2_moe": [
        {"threshold": 0.1},
        {"threshold": 0.1, "edit_threshold": 0.05, "edit_passes": 3},
        {"threshold": 0.06, "edit_threshold": 0.0, "edit_passes": 2, "block_length": 4, "edit_blocks": 2},
    ],
    "wedlm": [{"threshold": 0.06}, {"policy": "low_confidence"}, {"entropy_threshold": 2.6}],
    "nemotron_labs_diffusion": [{"threshold": 0.06}, {"mode": "causal"}, {"mode": "causal", "draft": "block"}],
    "sdar": [{"threshold": 0.1}, {"policy": "sequential"}, {"cache": "none"}],
    "llada": [
        {"threshold": 0.06},
        {"threshold": 0.06, "cache": "prefix", "block_length": 4},
        {"cfg_scale": 0.5},
        {"threshold": 0.06, "first_block_length": 3},
    ],
}
BEGINNINGS = st.sampled_from([[5], [5, 6, 7, 8, 9] * 3, [7, 8, 9, 10] * 8])


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[str, list[tuple[int, Work, int | None]]]:
    """A family, and works with the pass before which they come and the pass before which they are given up."""
    family = draw(st.sampled_from(sorted(MODES)))
    listed: list[tuple[int, Work, int | None]] = []
    for _ in range(draw(st.integers(1, 9))):
        prompt = [*draw(BEGINNINGS), *draw(st.lists(st.integers(4, 19), max_size=4))]
        params = {"max_new_tokens": draw(st.integers(1, 24)), "temperature": draw(st.sampled_from([0.0, 1.0]))}
        stop_ids = draw(st.sampled_from([(), (2, 3)]))
        each = work(prompt, sample=draw(st.integers(0, 2)), stop_ids=stop_ids, **draw(st.sampled_from(MODES[family])))
        each = replace(
            each,
            params=each.params.replace(**params),
            priority=draw(st.sampled_from(["realtime", "normal", "batch"])),
            deadline_s=draw(st.sampled_from([None, None, None, 4.0, 30.0])),
        )
        arrived = draw(st.integers(0, 30))
        gone = draw(st.none() | st.integers(arrived, 60))
        listed.append((arrived, each, gone))
    return family, sorted(listed, key=lambda entry: entry[0])


SETTINGS = st.builds(
    ServiceSettings,
    kv_bytes=st.integers(150, 400).map(lambda columns: columns * 256),
    prefix_share=st.sampled_from([0.0, 0.3]),
    prefix_unit=st.integers(1, 9),
    max_running=st.integers(1, 5),
    pass_tokens=st.integers(140, 300),
    prefill_tokens=st.integers(1, 40),
)


@settings(max_examples=60)
@given(coming=arrivals(), limits=SETTINGS)
def test_requests_that_come_and_go(
    coming: tuple[str, list[tuple[int, Work, int | None]]], limits: ServiceSettings
) -> None:
    family, listed = coming
    model, steps = tiny(family), Steps(tiny(family), limits)
    tickets = {}
    for number in range(62):
        for index, (arrived, each, gone) in enumerate(listed):
            if arrived == number:
                try:
                    tickets[index] = steps.submit(each)
                except ContextError:
                    assert limits.kv_bytes * (1 - limits.prefix_share) < 256 * 130 or family == "llada"
            if gone == number and index in tickets:
                tickets[index].cancel()
        running = steps.scheduler.running.values()
        steps.step()
        assert steps.used == sum(job.columns for job in running)
        assert len(steps.scheduler.engine.sequences) == len(running)
        steps.now += 1.0
    steps.run()
    assert steps.used == 0
    assert not steps.scheduler.engine.sequences
    for index, ticket in tickets.items():
        assert_ended(model, listed[index], ticket, listed[index][1])
    counts = steps.scheduler.metrics
    assert counts.finished + counts.cancelled + counts.expired == len(tickets)


def assert_ended(model: Any, entry: tuple[int, Work, int | None], ticket: Any, each: Work) -> None:
    """As alone, unless it was given up or its time was over."""
    try:
        events = events_of(ticket)
    except Cancelled:
        assert entry[2] is not None
    except DeadlineExceeded:
        assert each.deadline_s is not None
    else:
        assert_same(events, alone(model, each), passes=False)


@settings(max_examples=60)
@given(request=requests.fitting(), neighbour=requests.prompts(holes=False), limit=st.integers(1, 9))
def test_any_parameters_get_the_answer_of_the_request_alone(
    request: tuple[str, list[Any], dict[str, Any]], neighbour: list[int], limit: int
) -> None:
    """Twice, so that the second one finds what the first one left."""
    family, prompt, params = request
    assume(not requests.has_ties(prompt))
    model = tiny(family)
    each = Work(prompt=prompt, params=DecodeParams(**params))
    beside = Work(prompt=neighbour, params=DecodeParams(**params))
    try:
        expected = alone(model, each)
        alone(model, beside)
    except AnyorderError:
        return
    steps = Steps(model, ServiceSettings(kv_bytes=1 << 18, prefix_unit=2, prefill_tokens=limit))
    steps.submit(beside)
    for _ in range(2):
        ticket = steps.submit(each)
        steps.run()
        assert_same(events_of(ticket), expected, passes=False)
    assert steps.used == 0


def test_the_strategy_makes_every_mode() -> None:
    """What the test above relies on."""
    for family, all in MODES.items():
        for params in all:
            assert alone(tiny(family), work([5, 6], **params))


@pytest.mark.parametrize("priority", ["realtime", "normal", "batch"])
def test_everybody_is_answered_within_patience_and_the_work_ahead(priority: Any) -> None:
    """Twenty requests at once on one place: the last one ends with the last pass, and no pass is idle."""
    steps = Steps(tiny("llama"), ServiceSettings(kv_bytes=1 << 18, max_running=1))
    for index in range(20):
        kind: Any = priority if index == 0 else "realtime"
        steps.submit(work([5], priority=kind, max_new_tokens=3, stop_ids=()))
    steps.run()
    assert steps.scheduler.metrics.passes == 60
    assert steps.scheduler.metrics.finished == 20
