"""The engine: one forward per step for all running sequences, and where the time went."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.engine.tiny import tiny

import anyorder
from anyorder.api import EventStream
from anyorder.engine.loop import Engine
from anyorder.prompt import encode_prompt


def streamed(family: str, lengths: list[int], **params: Any) -> EventStream:
    model = tiny(family)
    prompts = [encode_prompt(model, [5] * length) for length in lengths]
    return EventStream(model, prompts, anyorder.DecodeParams(**params))


def test_a_step_is_one_forward_for_all_that_run() -> None:
    stream = streamed("llada", [2, 5, 3], max_new_tokens=4, stop_ids=())
    calls: list[int] = []
    forward = stream.runner.forward

    def watched(windows: Any, storages: Any) -> list[torch.Tensor]:
        calls.append(len(windows))
        return forward(windows, storages)

    stream.runner.forward = watched
    stream.generations()
    assert calls == [3] * 4


def test_a_finished_sequence_leaves_the_batch() -> None:
    stream = streamed("sdar", [1, 4], max_new_tokens=4, stop_ids=(), policy="sequential", steps=1)
    stream.engine.start()
    running: list[int] = []
    while stream.engine.running:
        running.append(len(stream.engine.running))
        stream.engine.step()
    assert running == [2, 1]


def test_guidance_doubles_the_windows_and_not_the_passes() -> None:
    plain = anyorder.generate(tiny("llada"), [5], max_new_tokens=4, stop_ids=())
    guided = anyorder.generate(tiny("llada"), [5], max_new_tokens=4, stop_ids=(), cfg_scale=1.0)
    assert guided.stats.passes == plain.stats.passes
    assert guided.stats.positions == 2 * plain.stats.positions


def test_measuring_drift_does_not_count_as_work() -> None:
    params: dict[str, Any] = {"max_new_tokens": 8, "cache": "dual", "block_length": 4, "stop_ids": ()}
    measured = anyorder.generate(tiny("llada"), [5], measure_drift=True, **params)
    plain = anyorder.generate(tiny("llada"), [5], **params)
    assert (measured.stats.passes, measured.stats.positions) == (plain.stats.passes, plain.stats.positions)


def test_the_clock_counts_passes_and_its_parts_fit() -> None:
    stream = streamed("llada", [2, 3], max_new_tokens=4, stop_ids=())
    stream.generations()
    clock = stream.engine.clock
    assert clock.passes == 4
    assert clock.model_s > 0
    assert clock.policy_s > 0
    assert clock.model_s + clock.policy_s + clock.other_s == pytest.approx(clock.total_s)


def test_no_gradients_are_kept() -> None:
    stream = streamed("llada", [2], max_new_tokens=2)
    seen: list[bool] = []
    forward = stream.runner.forward

    def watched(windows: Any, storages: Any) -> list[torch.Tensor]:
        rows = forward(windows, storages)
        seen.extend(row.requires_grad for row in rows)
        return rows

    stream.runner.forward = watched
    stream.generations()
    assert seen
    assert not any(seen)


def test_sequences_come_and_go_between_steps() -> None:
    """One that is away for a while goes on where it was."""
    stream = streamed("llama", [2, 3], max_new_tokens=6, stop_ids=(), mode="causal")
    first, second = stream.engine.sequences
    engine = Engine(stream.runner)
    events = engine.add(first)
    events += engine.step()
    events += engine.add(second)
    events += engine.step([second])
    assert (first.decoder.passes, second.decoder.passes) == (1, 1)
    engine.remove(first)
    events += engine.step()
    events += engine.step([first])
    assert (first.decoder.passes, second.decoder.passes) == (2, 2)
    alone = list(streamed("llama", [2, 3], max_new_tokens=6, stop_ids=(), mode="causal"))
    for request in range(2):
        own = [event.as_dict() for event in events if event.request == request]
        assert own == [event.as_dict() for event in alone if event.request == request][: len(own)]
        assert len(own) == 3


def test_an_engine_stops_at_a_failure_unless_it_isolates() -> None:
    def broken(stream: EventStream) -> Engine:
        decoder = stream.engine.sequences[0].decoder

        def decide(rows: Any) -> torch.Tensor:
            raise ZeroDivisionError

        decoder.decide = decide  # type: ignore[method-assign]
        return Engine(stream.runner, stream.engine.sequences, isolate=stream is isolated)

    isolated, plain = (streamed("llama", [2, 3], max_new_tokens=3, stop_ids=(), mode="causal") for _ in range(2))
    with pytest.raises(ZeroDivisionError):
        broken(plain).step()
    engine = broken(isolated)
    while engine.running:
        engine.step()
    first, second = engine.sequences
    assert isinstance(first.failure, ZeroDivisionError)
    assert (first.decoder.finished, second.decoder.finished) == (None, "length")
