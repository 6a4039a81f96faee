"""What is kept of earlier requests: found when it is exactly what would be computed, and never otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.tiny import tiny
from tests.serving.helpers import alone, assert_same
from tests.serving.helpers import work as unsalted
from tests.serving.steps import Steps, events_of

from anyorder import Hole
from anyorder.runner import Runner
from anyorder.serving import ServiceSettings, Ticket, Work
from anyorder.serving.prefix import PrefixCache
from anyorder.window import Attention

KEEPING = ServiceSettings(kv_bytes=1 << 18, prefix_share=0.5, prefix_unit=4)
TEXT = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 4, 5, 7]

RUNS: list[tuple[str, dict[str, Any], int]] = [
    ("llama", {"mode": "causal"}, 16),
    ("llama", {"mode": "causal", "temperature": 1.0, "draft": "ngram"}, 16),
    ("llama", {"mode": "block", "threshold": 0.1, "temperature": 1.0}, 16),
    ("sdar", {"threshold": 0.1, "temperature": 1.0}, 16),
    ("fast_dllm_v2", {"temperature": 1.0, "threshold": 0.06}, 16),
    ("fast_dllm_v2", {"temperature": 1.0, "cache": "sub_block", "sub_block_length": 4}, 16),
    ("fast_dllm_v2", {"mode": "causal", "temperature": 1.0}, 16),
]


def work(prompt: list[int | Hole], *, salt: str = "", **params: Any) -> Work:
    plain = unsalted(prompt, **params)
    return Work(prompt=plain.prompt, params=plain.params, salt=salt)


def after(steps: Steps, each: Work) -> Ticket:
    ticket = steps.submit(each)
    steps.run()
    return ticket


@pytest.mark.parametrize(("family", "params", "cached"), RUNS)
def test_a_kept_prefix_saves_its_columns_and_changes_nothing(family: str, params: dict[str, Any], cached: int) -> None:
    model = tiny(family)
    steps = Steps(model, KEEPING)
    after(steps, work([*TEXT, 8, 9], **params))
    again = work([*TEXT, 11], **params)
    ticket = after(steps, again)
    assert ticket.cached_tokens == cached
    assert_same(events_of(ticket), alone(model, again), passes=False)
    assert steps.scheduler.metrics.prefix_hits == 1


@pytest.mark.parametrize(("family", "params", "cached"), RUNS)
@pytest.mark.parametrize("length", [8, 16, 17])
def test_a_prompt_that_ends_with_a_unit_still_gets_its_logits(
    family: str, params: dict[str, Any], cached: int, length: int
) -> None:
    model = tiny(family)
    steps = Steps(model, KEEPING)
    after(steps, work([*TEXT], **params))
    again = work([*TEXT[:length]], **params)
    ticket = after(steps, again)
    assert ticket.cached_tokens < length
    assert_same(events_of(ticket), alone(model, again), passes=False)


@pytest.mark.parametrize(("family", "params"), [("llama", {"mode": "causal"}), ("sdar", {})])
def test_an_answer_is_a_prefix_of_the_next_turn(family: str, params: dict[str, Any]) -> None:
    model = tiny(family)
    steps = Steps(model, KEEPING)
    params = {"max_new_tokens": 20, "stop_ids": (), **params}
    after(steps, work([*TEXT], **params))
    turn = work([*steps.jobs[0].decoder.canvas.ids.tolist(), 9, 9], **params)
    ticket = after(steps, turn)
    assert ticket.cached_tokens == 36
    assert_same(events_of(ticket), alone(model, turn), passes=False)


def test_a_running_request_shares_its_prompt() -> None:
    model = tiny("llama")
    steps = Steps(model, KEEPING)
    steps.submit(work([*TEXT], mode="causal", stop_ids=()))
    steps.step(2)
    late = steps.submit(work([*TEXT], mode="causal", temperature=1.0))
    steps.run()
    assert late.cached_tokens == 16
    assert_same(events_of(late), alone(model, work([*TEXT], mode="causal", temperature=1.0)), passes=False)


@pytest.mark.parametrize(
    "other",
    [
        work([*TEXT[:3], 4, *TEXT[4:]]),  # another token in the first unit
        work([*TEXT], salt="another key"),
        work([*TEXT], mode="causal"),  # another attention
        work([*TEXT], block_length=12, sub_block_length=12),
        work([*TEXT], cache="none"),
        work([Hole(2), *TEXT]),
    ],
)
def test_nothing_is_shared_that_is_not_the_same(other: Work) -> None:
    model = tiny("fast_dllm_v2")
    steps = Steps(model, KEEPING)
    after(steps, work([*TEXT]))
    ticket = after(steps, other)
    assert ticket.cached_tokens == 0
    assert_same(events_of(ticket), alone(model, other))


def test_a_canvas_that_is_read_both_ways_keeps_nothing() -> None:
    steps = Steps(tiny("llada"), KEEPING)
    for _ in range(2):
        ticket = after(steps, work([*TEXT], cache="prefix", block_length=4))
        assert ticket.cached_tokens == 0
    assert steps.scheduler.memory.prefixes.used == 0


def test_a_cancelled_answer_is_not_kept() -> None:
    steps = Steps(tiny("llama"), KEEPING)
    ticket = steps.submit(work([*TEXT], mode="causal", max_new_tokens=30, stop_ids=()))
    steps.step(20)
    ticket.cancel()
    steps.run()
    assert steps.scheduler.memory.prefixes.used == 16  # the prompt's whole units


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 1), max_size=12), st.sampled_from([("causal", 1), ("block", 3)])),
        max_size=12,
    ),
    st.integers(0, 20),
)
def test_what_is_restored_is_what_was_kept(texts: list[tuple[list[int], tuple[Attention, int]]], capacity: int) -> None:
    """Every column holds a digest of what it depends on, so a mix-up would show."""
    runner = Runner(tiny("llama").network)
    cache = PrefixCache(runner.storage(capacity), 2)
    for ids, kind in texts:
        storage = runner.storage(20)
        unit = -(-2 // kind[1]) * kind[1]
        marks = [float(hash((kind, tuple(ids[: (column // unit + 1) * unit]))) % 10**6) for column in range(len(ids))]
        for keys in storage.keys:
            keys.fill_(-1)
        found = cache.restore(storage, [*ids, 0], kind)
        assert found % unit == 0
        assert storage.keys[0][0, :found, 0].tolist() == marks[:found]
        for keys in storage.keys:
            keys[:, : len(ids)] = torch.tensor(marks, dtype=keys.dtype)[:, None]
        cache.keep(storage, ids, kind)
        assert cache.used <= capacity
        if len(ids) <= capacity:
            assert cache.restore(storage, [*ids, 0], kind) == len(ids) // unit * unit


def test_the_least_recently_used_give_way_from_their_ends() -> None:
    runner = Runner(tiny("llama").network)
    cache = PrefixCache(runner.storage(8), 2)
    storage = runner.storage(8)
    cache.keep(storage, [1, 1, 1, 1], ("causal", 1))
    cache.keep(storage, [2, 2, 2, 2], ("causal", 1))
    assert cache.restore(storage, [1, 1, 1, 1, 0], ("causal", 1)) == 4  # used again
    cache.keep(storage, [3, 3], ("causal", 1))
    assert cache.restore(storage, [2, 2, 2, 2, 0], ("causal", 1)) == 2
    assert cache.restore(storage, [1, 1, 1, 1, 0], ("causal", 1)) == 4


def test_a_block_is_taken_over_whole_or_not_at_all() -> None:
    """Three units are known, one and a half blocks."""
    model = tiny("llama")
    steps = Steps(model, KEEPING)
    after(steps, work([*TEXT], mode="causal"))
    again = work([*TEXT[:13]], mode="block", block_length=8)
    ticket = after(steps, again)
    assert ticket.cached_tokens == 8
    assert_same(events_of(ticket), alone(model, again), passes=False)


def test_samples_of_one_prompt_read_it_once() -> None:
    """The others wait for the first one's pass instead of doing the same."""
    model = tiny("llama")
    steps = Steps(model, KEEPING)
    plain = work([*TEXT], mode="causal", temperature=1.0, stop_ids=())
    works = [replace(plain, sample=sample) for sample in range(4)]
    tickets = [steps.submit(each) for each in works]
    steps.step()
    assert [job.decoder.passes for job in steps.jobs] == [1, 0, 0, 0]
    steps.run()
    assert [ticket.cached_tokens for ticket in tickets] == [0, 16, 16, 16]
    assert steps.scheduler.metrics.passes == 13
    assert (steps.scheduler.metrics.prefix_hits, steps.scheduler.metrics.cached_tokens) == (3, 48)
    for each, ticket in zip(works, tickets, strict=True):
        assert_same(events_of(ticket), alone(model, each), passes=False)


def test_who_waits_for_a_prompt_goes_on_when_its_reader_is_gone() -> None:
    steps = Steps(tiny("llama"), replace(KEEPING, prefill_tokens=4))
    first = steps.submit(work([*TEXT], mode="causal"))
    second, third = (steps.submit(work([*TEXT], mode="causal", stop_ids=())) for _ in range(2))
    steps.step(2)
    assert [job.decoder.passes for job in steps.jobs] == [2, 0, 0]
    first.cancel()
    steps.run()
    assert (second.cached_tokens, third.cached_tokens) == (0, 16)
    for ticket in (second, third):
        assert_same(events_of(ticket), alone(tiny("llama"), work([*TEXT], mode="causal", stop_ids=())), passes=False)


@pytest.mark.parametrize(
    "other",
    [
        work([*TEXT[:4], *TEXT], mode="causal"),  # little is the same
        work([*TEXT], mode="causal", salt="another key"),
        work([*TEXT], mode="causal", cache="none"),
    ],
)
def test_nobody_waits_for_another_prompt(other: Work) -> None:
    steps = Steps(tiny("llama"), KEEPING)
    steps.submit(work([*TEXT], mode="causal"))
    steps.submit(other)
    steps.step()
    assert [job.decoder.passes for job in steps.jobs] == [1, 1]


def test_the_urgent_wait_for_nobody() -> None:
    steps = Steps(tiny("llama"), KEEPING)
    steps.submit(work([*TEXT], mode="causal"))
    steps.submit(replace(work([*TEXT], mode="causal"), priority="realtime"))
    steps.step()
    assert steps.jobs[1].decoder.passes == 1
