"""The engine: one forward per step for all running sequences, and where the time went."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.engine.tiny import tiny

import anyorder
from anyorder.api import EventStream
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
