"""An urgent request takes the memory of patient ones; they read again what they had, and answer the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.test_adapter import MODELS
from tests.engine.tiny import tiny
from tests.serving.helpers import alone, assert_same, finish, work
from tests.serving.steps import Steps, columns, events_of, started

from anyorder import AnyorderError
from anyorder.errors import Cancelled, DeadlineExceeded
from anyorder.models.loaded import LoadedModel
from anyorder.serving import ScoreWork

TEXT = [4 + index * 7 % 16 for index in range(33)]
RUNS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {"mode": "causal", "temperature": 1.0}),
    ("llama", {"mode": "causal", "draft": "ngram", "temperature": 1.0}),
    ("llama", {"mode": "causal", "draft": "lookup"}),
    ("llama", {"mode": "block", "temperature": 1.0, "threshold": 0.1}),
    ("sdar", {"temperature": 1.0, "threshold": 0.1}),
    ("fast_dllm_v2", {"temperature": 1.0, "threshold": 0.06}),
    ("fast_dllm_v2", {"temperature": 1.0, "threshold": 0.06, "block_length": 16}),
    ("llada2_moe", {"threshold": 0.06, "edit_threshold": 0.0, "edit_passes": 2, "block_length": 4, "edit_blocks": 2}),
    *((kind, {"mode": "block", "threshold": 0.1, "temperature": 1.0}) for kind in MODELS),
]
URGENT = work([5, 6], priority="realtime", mode="causal", draft="none", max_new_tokens=3, stop_ids=())


def model_of(family: str) -> LoadedModel:
    return MODELS[family]() if family in MODELS else tiny(family)


def urgent_for(model: LoadedModel) -> Any:
    """In any mode the model has."""
    return URGENT if "causal" in model.spec.modes else work([5, 6], priority="realtime", max_new_tokens=3, stop_ids=())


def crowded(model: LoadedModel, each: Any, **changes: Any) -> Steps:
    """Memory for the patient request, and hardly more."""
    needs = Steps(model)
    needs.submit(each)
    return Steps(model, columns(model, needs.jobs[0].columns + 2, **changes))


@pytest.mark.parametrize(("family", "params"), RUNS)
@pytest.mark.parametrize("chunk", [8, 500])
def test_an_answer_that_was_interrupted_is_the_same(family: str, params: dict[str, Any], chunk: int) -> None:
    """Behind any number of passes, inside blocks and drafts and before the prompt is read to its end."""
    model = model_of(family)
    patient = work(TEXT, priority="batch", max_new_tokens=24, **params)
    urgent = urgent_for(model)
    expected, other = alone(model, patient), alone(model, urgent)
    for passes in range(1, 100, 2):
        steps = crowded(model, patient, prefill_tokens=chunk)
        first = steps.submit(patient)
        steps.step(passes)
        if first.closed:
            break
        before = steps.jobs[0].decoder.stored
        second = steps.submit(urgent)
        steps.step()
        assert started([second]) == [True]
        assert steps.scheduler.metrics.evicted == 1
        steps.run()
        assert second.timing.total_s is not None
        assert_same(events_of(second), other)
        assert_same(events_of(first), expected, passes=False)
        assert steps.jobs[0].decoder.positions >= finish(expected).positions + before - 4
    else:
        raise AssertionError("the patient request never ended by itself")


def test_what_was_kept_is_not_computed_again() -> None:
    """Room for prefixes saves most of the second reading; it is no gift of others and not counted as one."""
    model = tiny("llama")
    patient = work(TEXT, priority="batch", mode="causal", draft="none", max_new_tokens=24, stop_ids=())
    positions: list[int] = []
    for share in (0.0, 0.5):
        total = round(58 / (1 - share))
        steps = Steps(model, columns(model, total, prefix_share=share, prefix_unit=4))
        first = steps.submit(patient)
        steps.step(10)
        second = steps.submit(URGENT)
        steps.run()
        assert (steps.scheduler.metrics.evicted, first.cached_tokens, second.cached_tokens) == (1, 0, 0)
        assert_same(events_of(first), alone(model, patient), passes=False)
        positions.append(steps.jobs[0].decoder.positions)
    alone_positions = finish(alone(model, patient)).positions
    assert positions == [alone_positions + 42, alone_positions + 42 % 4]


def test_only_as_many_as_it_takes_and_the_most_patient() -> None:
    model = tiny("llama")
    steps = Steps(model, columns(model, 86))
    length: dict[str, Any] = {"mode": "causal", "draft": "none", "max_new_tokens": 20, "stop_ids": ()}
    works = [work([5 + index], priority=p, **length) for index, p in enumerate(("normal", "batch", "normal", "batch"))]
    tickets = [steps.submit(each) for each in works]
    steps.step(2)
    urgent = steps.submit(URGENT)
    steps.step()
    assert started([urgent]) == [True]
    running = steps.scheduler.running
    assert [job.number in running for job in steps.jobs] == [True, True, True, False, True]
    steps.run()
    for each, ticket in zip(works, tickets, strict=True):
        assert_same(events_of(ticket), alone(model, each), passes=False)
    assert steps.scheduler.metrics.evicted == 1


def test_nobody_is_evicted_in_vain_or_for_an_equal() -> None:
    model = tiny("llama")
    length: dict[str, Any] = {"mode": "causal", "draft": "none", "stop_ids": ()}
    steps = Steps(model, columns(model, 60))
    first = steps.submit(work([5], priority="realtime", max_new_tokens=20, **length))
    second = steps.submit(work([5], priority="batch", max_new_tokens=20, **length))
    steps.step()
    large = steps.submit(work([5], priority="realtime", max_new_tokens=50, **length))
    equal = steps.submit(work([5], priority="batch", max_new_tokens=30, **length))
    steps.step(3)
    assert started([first, second, large, equal]) == [True, True, False, False]
    steps.run()
    assert steps.scheduler.metrics.evicted == 0


@pytest.mark.parametrize("kind", ["sub_block", "canvas", "scores"])
def test_what_cannot_be_computed_again_stays(kind: str) -> None:
    """The urgent request waits for its end."""
    if kind == "scores":
        model, patient = tiny("llama"), ScoreWork(ids=TEXT * 2, priority="batch")
        steps = Steps(model, columns(model, 68, prefill_tokens=8))
    else:
        family = "fast_dllm_v2" if kind == "sub_block" else "llada"
        params: dict[str, Any] = {"cache": "dual", "block_length": 4}
        if kind == "sub_block":
            params = {"cache": "sub_block", "sub_block_length": 4}
        model, patient = tiny(family), work(TEXT, priority="batch", stop_ids=(), **params)
        steps = crowded(model, patient)
    first = steps.submit(patient)
    steps.step(2)
    cached: dict[str, Any] = {"cache": "dual", "block_length": 4} if kind == "canvas" else {}
    urgent = steps.submit(work([5, 6], priority="realtime", max_new_tokens=4, stop_ids=(), **cached))
    while not first.closed:
        assert started([urgent]) == [False]
        steps.step()
    steps.run()
    assert (urgent.closed, steps.scheduler.metrics.evicted) == (True, 0)


@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_who_waits_again_can_leave(how: str) -> None:
    model = tiny("llama")
    patient = replace(work(TEXT, priority="batch", mode="causal", stop_ids=()), deadline_s=5.0)
    steps = crowded(model, patient)
    first = steps.submit(patient)
    steps.step(3)
    urgent = steps.submit(URGENT)
    steps.step()
    if how == "cancelled":
        first.cancel()
    else:
        steps.now = 5.0
    steps.step()
    with pytest.raises(Cancelled if how == "cancelled" else DeadlineExceeded):
        events_of(first)
    steps.run()
    assert_same(events_of(urgent), alone(model, URGENT))
    assert (steps.used, steps.scheduler.engine.sequences) == (0, [])


def test_nobody_is_evicted_for_ever() -> None:
    """Urgent requests come without end; behind its patience none of them takes the memory of the patient one."""
    model = tiny("llama")
    patient = work(TEXT, priority="batch", mode="causal", draft="none", max_new_tokens=20, stop_ids=())
    steps = crowded(model, patient, batch_patience_s=15.0)
    ticket = steps.submit(patient)
    while not ticket.closed:
        steps.step()
        if steps.now % 6 == 4:
            steps.submit(URGENT)
        steps.now += 1.0
        assert steps.now < 60
    assert steps.scheduler.metrics.evicted > 1
    assert_same(events_of(ticket), alone(model, patient), passes=False)


MIX: list[tuple[str, list[dict[str, Any]]]] = [
    ("llama", [{"mode": "causal", "draft": "none"}, {"mode": "causal", "draft": "ngram"},
               {"mode": "block", "threshold": 0.1}]),
    ("fast_dllm_v2", [{"threshold": 0.06}, {"mode": "causal", "draft": "lookup"},
                      {"cache": "sub_block", "sub_block_length": 4}]),
    ("sdar", [{"threshold": 0.1}, {"policy": "sequential"}]),
]  # fmt: skip


@settings(max_examples=40)
@given(st.data())
def test_a_mixed_load_in_tight_memory(data: st.DataObject) -> None:
    """Clients, priorities, modes, shared beginnings, evictions and cancellations at once: every answer is that of the
    request alone, everybody is answered, and no column stays lent."""
    family, kinds = data.draw(st.sampled_from(MIX))
    model, count = tiny(family), data.draw(st.integers(2, 8))
    room = data.draw(st.integers(60, 160))
    limits = columns(
        model, room, prefix_share=data.draw(st.sampled_from([0.0, 0.3])), prefix_unit=4,
        max_running=data.draw(st.integers(1, 4)), prefill_tokens=data.draw(st.integers(4, 40)),
    )  # fmt: skip
    steps, asked = Steps(model, limits), []
    for _ in range(count):
        each = work(
            [*TEXT[: data.draw(st.integers(1, 24))], data.draw(st.integers(4, 19))],
            priority=data.draw(st.sampled_from(["realtime", "normal", "batch"])),
            sample=data.draw(st.integers(0, 2)),
            max_new_tokens=data.draw(st.integers(1, 20)),
            temperature=data.draw(st.sampled_from([0.0, 1.0])),
            **data.draw(st.sampled_from(kinds)),
        )
        each = replace(each, salt=data.draw(st.sampled_from("ab")))
        try:
            asked.append((each, steps.submit(each), data.draw(st.integers(0, 9)) == 0))
        except AnyorderError:
            continue  # it would not fit if it were alone
        steps.step(data.draw(st.integers(0, 4)))
        steps.now += 1.0
        if asked[-1][2]:
            asked[-1][1].cancel()
        assert steps.used == sum(job.columns for job in steps.scheduler.running.values())
    steps.run()
    assert (steps.used, steps.scheduler.engine.sequences) == (0, [])
    for each, ticket, gone in asked:
        try:
            events = events_of(ticket)
        except Cancelled:
            assert gone
        else:
            assert_same(events, alone(model, each), passes=False)
