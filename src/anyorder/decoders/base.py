"""What every decoder is: a state machine over one canvas that never calls a model.

A pass has three steps. `plan` says what to compute, `decide` turns the rows of logits into proposals and a commit mask
on their device, `apply` writes what was committed into the canvas. What varies between decoders:

1. which slots are candidates in a pass (the next one, a block, the whole canvas);
2. which columns are fed and which are read from storage (`anyorder.cache.schemes`);
3. which row of logits predicts a slot (its own, or the one before it where the logits are shifted);
4. when a block is done and what follows it (the next block, a write pass, the end).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from anyorder.canvas import Canvas
from anyorder.errors import ModelError
from anyorder.events import Event, Finished, FinishReason, Started
from anyorder.window import Window


class Decoder(Protocol):
    """The interface that the engine drives: start, then plan / decide / apply until `finished` is set."""

    canvas: Canvas
    end: int
    passes: int
    positions: int
    finished: FinishReason | None

    def start(self) -> list[Event]:
        """The events before the first pass."""
        ...

    def plan(self) -> list[Window]:
        """What the next pass must compute: one window, or two with guidance."""
        ...

    def decide(self, rows: list[Tensor]) -> Tensor:
        """[3, n] or more rows on the device of the rows: proposed ids, confidence, 1 where committed; K likeliest ids
        and K probabilities where they are asked for.

        Args:
            rows: aligned with the windows of `plan`; the decoder may change them.
        """
        ...

    def apply(self, decision: Tensor) -> list[Event]:
        """Take the decision, now on the CPU, and move on."""
        ...

    def uncached(self, window: Window) -> Window:
        """The same rows computed without any cache, to measure drift against."""
        ...

    @property
    def stored(self) -> int:
        """Leading columns whose keys and values are stored: those of the tokens that stand there, however they came.

        A decoder that turns back to earlier columns says less afterwards.
        """
        ...

    @property
    def reads(self) -> int:
        """Tokens of given text that the next pass reads for the first time, a prompt's chunks apart."""
        ...

    def resume(self, stored: int) -> None:
        """Before the first pass: the caller has the keys and values of these leading columns."""
        ...

    def prefilled(self, stored: int) -> None:
        """Before the first pass: one more pass computed the columns up to `stored`; it counts as the request's."""
        ...

    def forget(self) -> None:
        """Nothing is stored any more; before its next pass the caller computes what was. Exact caches only."""
        ...


class DecoderBase:
    """The bookkeeping that all decoders share."""

    def __init__(self, canvas: Canvas, *, end: int, stop_ids: tuple[int, ...]) -> None:
        self.canvas = canvas
        self.end = end  # first column that nobody wants
        self.stop_ids = torch.tensor(stop_ids, dtype=torch.int64)
        self.passes = 0
        self.extra_passes = 0  # more than without prefilling; where draws depend on the pass, these do not count
        self.positions = 0
        self.finished: FinishReason | None = None
        self.slots = torch.empty(0, dtype=torch.int64)  # candidates of the planned pass
        self.stored = 0

    def start(self) -> list[Event]:
        """See `Decoder.start`."""
        canvas = self.canvas
        started = Started(
            canvas.request, tuple(canvas.ids.tolist()), tuple(canvas.open_slots().tolist()), canvas.answer_start
        )
        return [started, *self._begin()]

    def _begin(self) -> list[Event]:
        """What happens before the first pass; a canvas that the caller filled needs none."""
        reason = self.ending()
        return self.finish(reason) if reason else []

    @property
    def reads(self) -> int:
        """See `Decoder.reads`; decoders have their prompts read in chunks."""
        return 0

    def resume(self, stored: int) -> None:
        """See `Decoder.resume`."""
        self.stored = stored

    def prefilled(self, stored: int) -> None:
        """See `Decoder.prefilled`."""
        self.positions += stored - self.stored
        self.passes += 1
        self.extra_passes += 1
        self.resume(stored)

    def forget(self) -> None:
        """See `Decoder.forget`."""
        self.stored = 0

    def feed(self, start: int, end: int) -> Tensor:
        """[end - start] ids of the canvas, continued with masks where a block reaches beyond it."""
        ids = self.canvas.ids[start:end]
        missing = end - start - ids.shape[0]
        return torch.cat([ids, ids.new_full((missing,), self.canvas.mask_id)]) if missing else ids

    def uncached(self, window: Window) -> Window:
        """See `Decoder.uncached`."""
        before, behind = self.feed(0, window.start), self.feed(window.end, window.visible)
        return Window(
            ids=torch.cat([before, window.ids, behind]),  # the window may hold a draft that the canvas does not
            start=0,
            visible=window.visible,
            rows=window.rows + window.start,
            attention=window.attention,
            block_length=window.block_length,
            context=window.context,
            phase=window.phase,
            adapted=None if window.adapted is None else window.adapted + window.start,
            stores=False,
            branches=window.branches,
        )

    def count(self, windows: list[Window]) -> list[Window]:
        """Book the positions of the planned windows."""
        self.positions += sum(window.ids.shape[0] for window in windows)
        return windows

    def commit(self, decision: Tensor) -> list[Event]:
        """Commit the chosen candidates and count the pass.

        Raises:
            ModelError: the network computed nan.
        """
        check(decision)
        chosen = decision[2] > 0
        pass_index, self.passes = self.passes, self.passes + 1
        if not bool(chosen.any()):
            return []
        ids = decision[0][chosen].to(torch.int64)
        committed = self.canvas.commit(self.slots[chosen], ids, decision[1][chosen], pass_index)
        if decision.shape[0] > 3:
            committed = replace(committed, alternatives=alternatives(decision[3:, chosen].float()))
        return [committed]

    def stop_slot(self) -> int | None:
        """The first committed stop token of the answer."""
        return self.canvas.first_stop(self.stop_ids) if self.stop_ids.numel() else None

    def ending(self) -> FinishReason | None:
        """Why nothing is left to decide, or None."""
        stop = self.stop_slot()
        if stop is not None and self.canvas.is_filled(0, stop):
            return "stop"
        return "length" if len(self.canvas) >= self.end and self.canvas.is_filled(0, self.end) else None

    def finish(self, reason: FinishReason) -> list[Event]:
        """Close the request."""
        self.finished = reason
        return [Finished(self.canvas.request, reason, self.passes, self.positions)]


def check(decision: Tensor) -> None:
    """Raise ModelError if the network computed nan."""
    if bool(decision[1].isnan().any()):
        raise ModelError(
            "the model's logits are nan: its weights are damaged, or its numbers overflow; try dtype 'float32'"
        )


def alternatives(rows: Tensor, impossible: float = 0.0) -> tuple[tuple[tuple[int, float], ...], ...]:
    """[2 K, n] ids above their figures -> for each of n slots its (id, figure), in the order of the rows.

    Args:
        impossible: the figure of a token that cannot be there, which is left out.
    """
    ids, figures = rows.T.chunk(2, -1)  # [n, K] each
    pairs = zip(ids.to(torch.int64).tolist(), figures.tolist(), strict=True)
    return tuple(tuple(p for p in zip(own, values, strict=True) if p[1] != impossible) for own, values in pairs)


def rows_of(slots: Tensor, start: int, *, shift: bool) -> Tensor:
    """Rows of a window that predict `slots`; with `shift` the row before, and the window's first slot by itself."""
    return (slots - start - int(shift)).clamp_min(0)
