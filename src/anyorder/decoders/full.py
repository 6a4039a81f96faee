"""The whole canvas in one bidirectional pass, LLaDA's and Dream's way, with or without an approximate cache."""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.cache.schemes import FullScheme, Span, full_canvas_span
from anyorder.canvas import Canvas
from anyorder.decoders.base import DecoderBase, rows_of
from anyorder.decoders.choose import Chooser
from anyorder.events import BlockFinished, Event
from anyorder.policies.noise import Noise
from anyorder.policies.schedule import PassSchedule
from anyorder.window import Window


class FullDecoder(DecoderBase):
    """Decides the blocks of the canvas from left to right, every slot of a block in any order.

    A slot left of the block that is still open (a hole in the prompt) is a candidate as well, but the block's schedule
    does not count it; what the schedules leave open is filled by further passes at the end.

    Args:
        canvas: the prompt and the answer slots that are visible from the start.
        end: first column behind the answer; the canvas grows up to it block by block if it is shorter.
        block_length: slots per block; None makes everything up to `end` one block.
        first_block_length: of the first block; None: as the others.
        steps: scheduled passes per block; None commits one slot per scheduled pass.
        eps: end of the time grid.
        noise: share of masked slots over time, for ancestral schedules.
        shift: a slot is predicted by the row before it.
        cfg_scale: weight of guidance away from the canvas without its prompt.
    """

    def __init__(
        self,
        canvas: Canvas,
        chooser: Chooser,
        *,
        end: int,
        stop_ids: tuple[int, ...] = (),
        block_length: int | None = None,
        first_block_length: int | None = None,
        steps: int | None = None,
        eps: float = 1e-3,
        noise: Noise = "loglinear",
        shift: bool = False,
        scheme: FullScheme = "none",
        cfg_scale: float = 0.0,
    ) -> None:
        super().__init__(canvas, end=end, stop_ids=stop_ids)
        self.chooser = chooser
        self.block_length = block_length
        self.steps = steps
        self.eps = eps
        self.noise: Noise = noise
        self.shift = shift
        self.scheme: FullScheme = scheme
        self.cfg_scale = cfg_scale
        self.block_index = 0
        self.left: list[tuple[int, Span]] = []  # blocks that were left, because of their schedule, with open slots
        length = first_block_length or block_length
        first = canvas.answer_start if length is not None else 0
        self._enter(Span(first, min(first + (length or end), end)))

    def _enter(self, block: Span) -> None:
        self.block = block
        self.step = 0
        self.schedule = PassSchedule(
            kind=self.chooser.policy.schedule,
            total=int(self.canvas.open[block.start : block.end].sum()),
            steps=self.steps,
            eps=self.eps,
            noise=self.noise,
        )

    def _candidates(self, start: int = 0) -> Tensor:
        stop = self.stop_slot()
        return self.canvas.open_slots(start, self.block.end if stop is None else min(stop, self.block.end))

    def plan(self) -> list[Window]:
        """The columns that the cache scheme wants, and the rows of the block's open slots."""
        canvas, block, first = Span(0, len(self.canvas)), self.block, self.step == 0
        span = full_canvas_span(self.scheme, block, canvas, first_pass=first)
        if self.scheme == "none" or first:
            self.slots = self._candidates()
        else:
            self.slots = self._candidates(block.start)
        self.step = self.chooser.next_step(self.schedule, self.slots, self.step)
        # inside a cached window the first slot has no row before it: decide it while there is one
        self.only_first = self.shift and self.scheme != "none" and first and bool(self.canvas.open[block.start])
        if self.only_first:
            self.slots = torch.tensor([block.start])
        window = Window(
            ids=self.feed(span.start, span.end),
            start=span.start,
            visible=canvas.end,
            rows=rows_of(self.slots, span.start, shift=self.shift),
            attention="bidirectional",
            stores=self.scheme != "none",
        )
        return self.count([window, self._unprompted(window)] if self.cfg_scale else [window])

    def _unprompted(self, window: Window) -> Window:
        ids = torch.where(self.canvas.given, self.canvas.mask_id, self.canvas.ids)
        return Window(
            ids=ids, start=0, visible=window.visible, rows=window.rows, attention="bidirectional", stores=False
        )

    def decide(self, rows: list[Tensor]) -> Tensor:
        """See `Decoder.decide`."""
        logits = rows[0]
        if self.cfg_scale:
            logits = rows[1] + (self.cfg_scale + 1) * (rows[0] - rows[1])
        return self.chooser.choose(
            logits,
            self.slots,
            pass_index=self.step if self.schedule.ancestral else self.passes,
            quota=self.schedule.quota(self.step, self.slots.shape[0]),
            probability=self.schedule.probability(self.step),
            all=self.only_first,
            greedy=self.schedule.ends(self.step),
        )

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        events = self.commit(decision)
        self.step += 1
        return events + self._advance()

    def _begin(self) -> list[Event]:
        return self._advance()

    def _advance(self) -> list[Event]:
        events = self._blocks_finished() if self.left else []
        while self.finished is None and self._block_done():
            events += self._next_block()
        return events

    def _blocks_finished(self) -> list[Event]:
        stop = self.stop_slot()
        done = [
            (index, block)
            for index, block in self.left
            if self.canvas.is_filled(block.start, block.end if stop is None else min(stop, block.end))
        ]
        self.left = [entry for entry in self.left if entry not in done]
        return [BlockFinished(self.canvas.request, index, b.start, b.end, self.passes) for index, b in done]

    def _block_done(self) -> bool:
        if self._candidates().numel() == 0:
            return True
        if self.block.end >= self.end or self.stop_slot() is not None:
            return False
        if self.schedule.kind == "even" and self.scheme == "none":  # a cache leaves no slot behind
            return self.step >= self.schedule.passes
        return self.canvas.is_filled(self.block.start, self.block.end)

    def _next_block(self) -> list[Event]:
        block = self.block
        self.left.append((self.block_index, block))
        events = self._blocks_finished()
        reason = self.ending()
        if reason or block.end >= self.end:
            return events + self.finish(reason or "length")
        end = min(block.end + (self.block_length or self.end), self.end)
        if end > len(self.canvas):
            events.append(self.canvas.grow(end - len(self.canvas)))
        self.block_index += 1
        self._enter(Span(block.end, end))
        return events
