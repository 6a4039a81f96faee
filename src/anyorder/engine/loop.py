"""The loop: plan, forward, decide, apply."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.engine.sequence import Sequence
from anyorder.events import Event
from anyorder.runner import Runner
from anyorder.window import Window


@dataclass
class Clock:
    """Where the wall time of the passes went, in seconds. On a GPU the model's share ends with its launch."""

    model_s: float = 0.0
    policy_s: float = 0.0
    total_s: float = 0.0
    passes: int = 0

    @property
    def other_s(self) -> float:
        """Planning, applying and everything else inside `Engine.step`."""
        return max(0.0, self.total_s - self.model_s - self.policy_s)


class Engine:
    """Runs any number of sequences, one forward pass for all of them per step."""

    def __init__(self, runner: Runner, sequences: Iterable[Sequence] = ()) -> None:
        self.runner = runner
        self.sequences = list(sequences)
        self.clock = Clock()

    @property
    def running(self) -> list[Sequence]:
        """The sequences that are not finished."""
        return [sequence for sequence in self.sequences if sequence.running]

    def start(self) -> list[Event]:
        """The events before the first pass."""
        return [event for sequence in self.sequences for event in sequence.decoder.start()]

    @torch.inference_mode()
    def step(self) -> list[Event]:
        """One forward pass for every running sequence; the events it caused."""
        begun = time.perf_counter()
        batch = self.running
        plans = [sequence.decoder.plan() for sequence in batch]
        planned = time.perf_counter()
        rows = self._forward(batch, plans)
        computed = time.perf_counter()
        decisions = _to_cpu([sequence.decoder.decide(r) for sequence, r in zip(batch, rows, strict=True)])
        decided = time.perf_counter()
        events = [e for sequence, d in zip(batch, decisions, strict=True) for e in sequence.decoder.apply(d)]
        self.clock.model_s += computed - planned
        self.clock.policy_s += decided - computed
        self.clock.total_s += time.perf_counter() - begun
        self.clock.passes += 1
        return events

    def _forward(self, batch: list[Sequence], plans: list[list[Window]]) -> list[list[Tensor]]:
        """Rows for every planned window, grouped by sequence; drift is measured on the side."""
        windows = [window for plan in plans for window in plan]
        storages = [sequence.storage for sequence, plan in zip(batch, plans, strict=True) for _ in plan]
        measured = [sequence.measures(plan) for sequence, plan in zip(batch, plans, strict=True)]
        shadows = [s.decoder.uncached(plan[0]) for s, plan, yes in zip(batch, plans, measured, strict=True) if yes]
        rows = self.runner.forward([*windows, *shadows], [*storages, *[None] * len(shadows)])
        planned, exact = iter(rows[: len(windows)]), iter(rows[len(windows) :])
        grouped = [[next(planned) for _ in plan] for plan in plans]
        for sequence, own, yes in zip(batch, grouped, measured, strict=True):
            if yes:
                sequence.drift = sequence.drift.add(own[0], next(exact))
        return grouped


def _to_cpu(decisions: list[Tensor]) -> list[Tensor]:
    """All decisions of the pass in one transfer: the only point where the host waits for the device."""
    counts = [decision.shape[1] for decision in decisions]
    return list(torch.cat(decisions, dim=1).cpu().split(counts, dim=1))
