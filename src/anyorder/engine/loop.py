"""The loop: plan, forward, decide, apply."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from anyorder.engine.sequence import Sequence
from anyorder.events import Event
from anyorder.runner import Runner
from anyorder.window import Window

T = TypeVar("T")


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
    """Runs any number of sequences, one forward pass for all of them per step; they may come and go between steps.

    Args:
        isolate: go on without a sequence whose own part of a pass fails, and note it in `Sequence.failure`.
    """

    def __init__(self, runner: Runner, sequences: Iterable[Sequence] = (), *, isolate: bool = False) -> None:
        self.runner = runner
        self.sequences = list(sequences)
        self.isolate = isolate
        self.clock = Clock()

    @property
    def running(self) -> list[Sequence]:
        """The sequences that are not finished."""
        return [sequence for sequence in self.sequences if sequence.running]

    def start(self) -> list[Event]:
        """The events before the first pass."""
        return [event for sequence in self.sequences for event in sequence.decoder.start()]

    def add(self, sequence: Sequence) -> list[Event]:
        """Take in one more sequence; its events before its first pass."""
        self.sequences.append(sequence)
        return self._attempt(sequence, sequence.decoder.start) or []

    def remove(self, sequence: Sequence) -> None:
        """Let go of a sequence, finished or not."""
        self.sequences.remove(sequence)

    @torch.inference_mode()
    def step(self, batch: list[Sequence] | None = None) -> list[Event]:
        """One forward pass for every running sequence, or those of `batch`; the events it caused."""
        begun = time.perf_counter()
        plans = self._plans(self.running if batch is None else batch)
        planned = time.perf_counter()
        rows = self._forward(plans)
        computed = time.perf_counter()
        decisions = self._decisions([sequence for sequence, _ in plans], rows)
        decided = time.perf_counter()
        events = [e for s, d in decisions for e in self._attempt(s, partial(s.apply, d)) or []]
        self.clock.model_s += computed - planned
        self.clock.policy_s += decided - computed
        self.clock.total_s += time.perf_counter() - begun
        self.clock.passes += 1
        return events

    def _attempt(self, sequence: Sequence, act: Callable[[], T]) -> T | None:
        """One sequence's own part of a pass; None if it failed and the others go on."""
        try:
            return act()
        except Exception as error:
            if not self.isolate:
                raise
            sequence.failure = error
            return None

    def _plans(self, batch: list[Sequence]) -> list[tuple[Sequence, list[Window]]]:
        plans = ((sequence, self._attempt(sequence, sequence.plan)) for sequence in batch)
        return [(sequence, plan) for sequence, plan in plans if plan is not None]

    def _decisions(self, batch: list[Sequence], rows: list[list[Tensor]]) -> list[tuple[Sequence, Tensor]]:
        """What each sequence decides, on the CPU."""
        decisions = ((s, self._attempt(s, partial(s.decide, r))) for s, r in zip(batch, rows, strict=True))
        made = [(sequence, decision) for sequence, decision in decisions if decision is not None]
        return list(zip([s for s, _ in made], _to_cpu([d for _, d in made]), strict=True))

    def _forward(self, plans: list[tuple[Sequence, list[Window]]]) -> list[list[Tensor]]:
        """Rows for every planned window, grouped by sequence; drift is measured on the side."""
        windows = [window for _, plan in plans for window in plan]
        if not windows:
            return []
        storages = [sequence.storage for sequence, plan in plans for _ in plan]
        shadows = [s.uncached(plan[0]) for s, plan in plans if s.measures(plan)]
        rows = self.runner.forward([*windows, *shadows], [*storages, *[None] * len(shadows)])
        planned, exact = iter(rows[: len(windows)]), iter(rows[len(windows) :])
        grouped = [[next(planned) for _ in plan] for _, plan in plans]
        for (sequence, plan), own in zip(plans, grouped, strict=True):
            if sequence.measures(plan):
                sequence.drift = sequence.drift.add(own[0], next(exact))
        return grouped


def _to_cpu(decisions: list[Tensor]) -> list[Tensor]:
    """All decisions of the pass in one transfer: the only point where the host waits for the device."""
    if not decisions:
        return []
    flat = torch.cat([decision.flatten() for decision in decisions]).cpu().split([d.numel() for d in decisions])
    return [values.view(decision.shape) for values, decision in zip(flat, decisions, strict=True)]
