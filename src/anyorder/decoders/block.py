"""Block after block: inside a block any order, between blocks left to right, finished blocks stored exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.cache.schemes import BlockScheme, Span, block_span
from anyorder.canvas import Canvas
from anyorder.decoders.base import DecoderBase, rows_of
from anyorder.decoders.choose import Chooser
from anyorder.events import BlockFinished, Event, FinishReason
from anyorder.policies import schedule
from anyorder.window import Attention, Window


class BlockDecoder(DecoderBase):
    """Denoises one block at a time behind a stored prefix; SDAR's and Fast-dLLM v2's way.

    Blocks are counted from column 0, so the prompt's tail shares its block with the first answer slots, and a block
    may reach beyond the last wanted slot (it is continued with masks that nobody decides). A block without open slots
    costs one *write* pass that stores its keys and values; the prompt's whole blocks are written together. Where the
    logits are shifted, the write pass also predicts the first slot of the next block.

    Args:
        canvas: the prompt; answer slots are opened block by block.
        end: first column behind the answer.
        block_length: slots per block, as trained.
        sub_block_length: candidates come from the leftmost sub-block with an open slot; None: the whole block.
        steps: scheduled passes per block; None commits one slot per scheduled pass.
        attention: "block": a block sees itself both ways; "causal": only what is left of it, as an autoregressive model
            was trained.
        scheme: what is kept between passes.
        cached: leading columns whose keys and values are already stored; a multiple of `block_length`.
        finish_block: decide a block to its end even if a stop token ended the answer inside it (SDAR).
        write_last: store the last block too (SDAR's sampler does).
        past_stop: slots behind a committed stop token stay candidates (Fast-dLLM v2's sampler does).
    """

    def __init__(
        self,
        canvas: Canvas,
        chooser: Chooser,
        *,
        end: int,
        block_length: int,
        stop_ids: tuple[int, ...] = (),
        sub_block_length: int | None = None,
        steps: int | None = None,
        eps: float = 1e-3,
        shift: bool = False,
        attention: Attention = "block",
        scheme: BlockScheme = "block",
        cached: int = 0,
        finish_block: bool = False,
        write_last: bool = False,
        past_stop: bool = False,
    ) -> None:
        super().__init__(canvas, end=end, stop_ids=stop_ids)
        self.chooser = chooser
        self.block_length = block_length
        self.sub_block_length = sub_block_length or block_length
        self.steps = steps or block_length
        self.eps = eps
        self.shift = shift
        self.attention: Attention = attention
        self.scheme: BlockScheme = scheme
        self.stored = cached
        self.finish_block = finish_block
        self.write_last = write_last
        self.past_stop = past_stop
        self.quotas = schedule.even(block_length, self.steps)
        self.step = 0
        self.computed = False  # the block's columns were fed since it was entered
        self.writing = False  # the planned pass stores decided blocks
        self.refresh = False  # a neighbour in a lockstep batch asks for a whole-block pass (see `anyorder.reference`)
        self.last: FinishReason | None = None  # set while the last block still has to be written

    @property
    def block(self) -> Span:
        """The block being decided or written."""
        return Span(self.stored, self.stored + self.block_length)

    def start(self) -> list[Event]:
        """See `Decoder.start`."""
        return super().start() + self._open()

    def _first_unknown(self) -> int:
        """The first column behind `cached` that is open or not yet part of the canvas."""
        open_slots = self.canvas.open_slots(self.stored)
        return int(open_slots[0]) if open_slots.numel() else len(self.canvas)

    def _open(self) -> list[Event]:
        """Open the answer slots of the first block that is not all decided."""
        block_end = (self._first_unknown() // self.block_length + 1) * self.block_length
        missing = min(block_end, self.end) - len(self.canvas)
        return [self.canvas.grow(missing)] if missing > 0 else []

    def _undecided(self) -> int:
        """First column behind the run of whole decided blocks that starts at `cached`."""
        return self._first_unknown() // self.block_length * self.block_length

    @property
    def stage(self) -> tuple[int, int]:
        """(block, sub-block) of the next pass, in the order of decoding; a write follows the block's last sub-block."""
        end = self._undecided()
        if end > self.stored:
            return end // self.block_length - 1, self.block_length // self.sub_block_length
        return self.stored // self.block_length, (self.sub_block().start - self.stored) // self.sub_block_length

    def sub_block(self) -> Span:
        """The leftmost sub-block of the block with an open slot."""
        first = int(self.canvas.open_slots(self.block.start, self.block.end)[0])
        start = first - (first - self.stored) % self.sub_block_length
        return Span(start, min(start + self.sub_block_length, self.block.end))

    def needs_refresh(self) -> bool:
        """True if the sub-block's neighbours must be recomputed: see `cache.schemes.block_span`."""
        return not self.computed or bool(self.canvas.open[self.sub_block().start])

    def plan(self) -> list[Window]:
        """A write of all whole blocks that are decided, or else a denoising pass over the block."""
        end = self._undecided()
        self.writing = end > self.stored
        return self.count([self._write(end) if self.writing else self._denoise()])

    def _write(self, end: int) -> Window:
        decided = end != self._first_unknown() or end in self.canvas.forced
        wanted = self.shift and end < self.end and self.last is None and not decided
        self.slots = torch.tensor([end] if wanted else [], dtype=torch.int64)
        return self._window(Span(0 if self.scheme == "none" else self.stored, end), end)

    def _denoise(self) -> Window:
        sub_block, stop = self.sub_block(), self.stop_slot()
        limit = sub_block.end if stop is None or self.past_stop or self.finish_block else min(stop, sub_block.end)
        self.slots = self.canvas.open_slots(sub_block.start, limit)
        refresh = self.refresh or self.needs_refresh()
        span = block_span(self.scheme, sub_block, self.block, refresh=refresh)
        return self._window(span, self.block.end)

    def _window(self, span: Span, visible: int) -> Window:
        return Window(
            ids=self.feed(span.start, span.end),
            start=span.start,
            visible=visible,
            rows=rows_of(self.slots, span.start, shift=self.shift),
            attention=self.attention,
            block_length=self.block_length,
            phase="write" if self.writing else "denoise",
            stores=self.scheme != "none",
        )

    def decide(self, rows: list[Tensor]) -> Tensor:
        """See `Decoder.decide`."""
        return self.chooser.choose(
            rows[0],
            self.slots,
            pass_index=self.passes,
            quota=self._quota(self.slots.shape[0]),
            probability=schedule.transfer_probability(self.step, self.steps, self.eps),
            all=self.writing,
        )

    def _quota(self, open_count: int) -> int:
        match self.chooser.policy.schedule:
            case "none":
                return open_count
            case "even":
                return self.quotas[self.step] if self.step < len(self.quotas) else max(1, self.quotas[-1])
            case "timesteps":
                return schedule.timesteps(open_count, self.step, self.steps, self.eps)
            case "budget":
                in_block = int(self.canvas.open[self.block.start : self.block.end].sum())
                return schedule.budget(in_block, self.block_length, self.step, self.steps)

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        return self._applied_write(decision) if self.writing else self._applied_denoise(decision)

    def _applied_write(self, decision: Tensor) -> list[Event]:
        self.stored = self._undecided()
        self.step, self.computed = 0, False
        events = self._open() if self.last is None else []
        events += self.commit(decision)
        return events + (self.finish(self.last) if self.last else self._after_commit())

    def _applied_denoise(self, decision: Tensor) -> list[Event]:
        events = self.commit(decision)
        self.step += 1
        self.computed = True
        return events + self._after_commit()

    def _after_commit(self) -> list[Event]:
        events: list[Event] = []
        block_filled = len(self.canvas) >= min(self.block.end, self.end) and self.canvas.is_filled(0, self.block.end)
        if block_filled:
            events.append(self._block_finished())
        reason = self.ending()
        if reason == "stop" and self.finish_block and not block_filled:
            reason = None
        if reason is None:
            return events
        if self.write_last and self._undecided() > self.stored:
            self.last = reason
            return events
        return events + self.finish(reason)

    def _block_finished(self) -> BlockFinished:
        block = self.block
        index = block.start // self.block_length
        return BlockFinished(self.canvas.request, index, block.start, min(block.end, self.end), self.passes)
