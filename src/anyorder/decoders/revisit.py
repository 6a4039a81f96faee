"""Draft-and-edit over several blocks: a full block may correct the ones before it; LLaDA2.1's multi-block editing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from anyorder.cache.schemes import Span
from anyorder.canvas import Canvas
from anyorder.decoders.choose import Chooser
from anyorder.decoders.edit import EditingDecoder
from anyorder.events import BlockFinished, Event, FinishReason
from anyorder.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisiting:
    """How far back a full block corrects, and for how long."""

    earlier: int
    """Blocks before the full one that are read again with it."""
    max_passes: int = 5
    """Passes over all of them together."""


class RevisitingDecoder(EditingDecoder):
    """As `EditingDecoder`; when a block is settled, it and the `earlier` blocks before it are read together.

    The model was trained to read blocks without what follows them, and so nothing in a later block could change what
    it says of an earlier one. So these passes look both ways over all blocks of the reach: that is the published rule.
    They replace tokens under the same threshold, and end when one changes nothing, comes back to a state that was
    there, or after `max_passes`. What they compute is not kept: the blocks of the reach are fed once more, each
    without what follows it, with the first pass of the next block, as text is always stored.

    A block is finished when no later one reaches it, or when the answer ends. A stop token counts when the passes over
    its block and its reach are over: the answer ends there, so that nothing can change it any more.

    Args:
        revisiting: how far, how long.
        options: of `EditingDecoder`.
    Source: Multi-Block Editing, arXiv:2607.22663 (`earlier` 1, which it counts as 2 blocks, and 5 passes), and section
        4.3 of LLaDA2.1's report, arXiv:2602.08676. When a pass changes nothing, blocks without a committed slot, and
        the end of an answer are not described there: these rules are ours.
    """

    def __init__(self, canvas: Canvas, chooser: Chooser, *, revisiting: Revisiting, **options: Any) -> None:
        self.revisiting = revisiting
        self.reach: Span | None = None  # while blocks are read together: their columns
        self.waiting: list[BlockFinished] = []  # settled blocks that may still change, without the passes
        super().__init__(canvas, chooser, **options)

    def _enter(self) -> None:
        super()._enter()
        self.reach = None

    @property
    def pending(self) -> bool:
        """See `BlockDecoder.pending`; blocks that are read together are not stored."""
        return self.reach is None and super().pending

    @property
    def edited(self) -> Span:
        """See `EditingDecoder.edited`."""
        return self.reach or self.block

    @property
    def most_passes(self) -> int:
        """See `EditingDecoder.most_passes`."""
        return self.revisiting.max_passes if self.reach else super().most_passes

    def _denoise(self) -> Window:
        if self.reach is None:
            return super()._denoise()
        self.slots = self._candidates(self.reach)
        window = self._window(Span(0 if self.scheme == "none" else self.reach.start, self.reach.end), self.reach.end)
        return replace(window, adapted=self.reach.start - window.start)

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        reach = self.reach
        events = super().apply(decision)
        if reach is not None:
            self.stored = min(self.stored, reach.start)
        return events

    def _after_commit(self) -> list[Event]:
        if self.settled and self.reach is None and self._reach():
            return []
        return super()._after_commit()

    def _reach(self) -> bool:
        """Turn to the settled block and the ones before it; False if no slot before it may change."""
        first = max(self.block.start - self.revisiting.earlier * self.block_length, 0)
        committed = self.canvas.committed[first : self.block.start].nonzero()
        if not committed.numel():
            return False
        skipped = int(committed[0]) // self.block_length * self.block_length
        self.reach = Span(first + skipped, self.block.end)
        self.settled, self.post_passes, self.seen = False, 1, {self._state()}
        return True

    def _finished_blocks(self) -> list[BlockFinished]:
        """The blocks that the next one does not reach."""
        self.waiting += super()._finished_blocks()
        reached = self.block.end - self.revisiting.earlier * self.block_length
        return self._let_go(before=reached)

    def _let_go(self, *, before: int) -> list[BlockFinished]:
        gone = [block for block in self.waiting if block.start < before]
        self.waiting = [block for block in self.waiting if block.start >= before]
        return [replace(block, passes=self.passes) for block in gone]

    def finish(self, reason: FinishReason) -> list[Event]:
        """See `DecoderBase.finish`."""
        return [*self._let_go(before=self.end), *super().finish(reason)]
