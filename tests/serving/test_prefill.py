"""Chunked prefill: a long prompt holds nobody up, and the answer is that of a prompt read in one go."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.tiny import tiny
from tests.serving.helpers import alone, assert_same, finish, work
from tests.serving.steps import Steps, events_of

from anyorder.serving import ServiceSettings

TEXT = [4 + index * 7 % 16 for index in range(61)]

RUNS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {"mode": "causal", "temperature": 1.0}),
    ("llama", {"mode": "causal", "draft": "ngram"}),
    ("llama", {"mode": "block", "temperature": 1.0, "threshold": 0.1}),
    ("sdar", {"temperature": 1.0, "threshold": 0.1}),
    ("fast_dllm_v2", {"temperature": 1.0, "threshold": 0.06}),
    ("fast_dllm_v2", {"mode": "causal", "measure_drift": True}),
]


def bounded(prefill_tokens: int, **changes: Any) -> ServiceSettings:
    return ServiceSettings(kv_bytes=1 << 18, prefix_share=0.0, prefill_tokens=prefill_tokens, **changes)


@pytest.mark.parametrize(("family", "params"), RUNS)
@pytest.mark.parametrize("length", [31, 32, 33, 61])
@pytest.mark.parametrize("chunk", [8, 13])
def test_chunks_change_nothing(family: str, params: dict[str, Any], length: int, chunk: int) -> None:
    model = tiny(family)
    steps = Steps(model, bounded(chunk))
    each = work(TEXT[:length], **params)
    ticket = steps.submit(each)
    steps.run()
    expected = alone(model, each)
    events = events_of(ticket)
    assert_same(events, expected, passes=False)
    assert finish(events).passes > finish(expected).passes or length <= 32
    assert finish(events).positions == finish(expected).positions


def test_others_go_on_while_a_long_prompt_is_read() -> None:
    """Five chunks: the neighbour commits a token in every one of these passes."""
    steps = Steps(tiny("llama"), bounded(12))
    other = steps.submit(work([5], mode="causal", max_new_tokens=30, stop_ids=()))
    steps.step()
    long = steps.submit(work(TEXT[:60], mode="causal"))
    steps.step(5)
    assert steps.jobs[1].decoder.stored == 60
    assert long.timing.first_commit_s is not None
    assert steps.jobs[0].decoder.passes == 6
    steps.run()
    assert_same(events_of(other), alone(tiny("llama"), work([5], mode="causal", max_new_tokens=30, stop_ids=())))


def test_prompts_share_the_bound() -> None:
    """Three prompts of five tokens, twelve per pass: two are read together, the third in the next pass."""
    steps = Steps(tiny("llama"), bounded(12))
    for index in range(3):
        steps.submit(work([5 + index] * 5, mode="causal", stop_ids=()))
    steps.step()
    assert [job.decoder.passes for job in steps.jobs] == [1, 1, 0]
    steps.step()
    assert [job.decoder.passes for job in steps.jobs] == [2, 2, 1]


def test_a_block_is_never_cut() -> None:
    """A bound below the block length reads a block per pass."""
    model = tiny("fast_dllm_v2")
    steps = Steps(model, bounded(3))
    each = work(TEXT[:40], block_length=16)
    ticket = steps.submit(each)
    steps.run()
    assert_same(events_of(ticket), alone(model, each), passes=False)


@pytest.mark.parametrize("cache", ["none", "prefix", "dual"])
def test_a_canvas_that_is_read_both_ways_is_never_cut(cache: str) -> None:
    model = tiny("llada")
    steps = Steps(model, bounded(8))
    each = work(TEXT[:40], cache=cache, block_length=4)
    ticket = steps.submit(each)
    steps.run()
    assert_same(events_of(ticket), alone(model, each))
