"""Block after block: inside a block any order, between blocks left to right, finished blocks stored exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.cache.schemes import BlockScheme, Span, block_span
from anyorder.canvas import Canvas
from anyorder.decoders.base import DecoderBase, rows_of
from anyorder.decoders.choose import Chooser
from anyorder.events import BlockFinished, Event, FinishReason
from anyorder.policies.noise import Noise
from anyorder.policies.schedule import PassSchedule
from anyorder.window import Attention, Window


class BlockDecoder(DecoderBase):
    """Denoises one block at a time behind a stored prefix; SDAR's and Fast-dLLM v2's way.

    Blocks are counted from column 0, so the prompt's tail shares its block with the first answer slots, and a block
    may reach beyond the last wanted slot (it is continued with masks that nobody decides). Decided blocks that are not
    stored yet, the prompt's whole blocks first of all, cost a *write* pass, or are fed together with the next block's
    first pass (`fuse_write`), which is as exact: a block never sees the ones behind it. Where the logits are shifted,
    the write pass also predicts the first slot of the next block; it can only be fused if that row is the causal mode's
    (`adapted`), which needs no look at the block.

    Args:
        canvas: the prompt; answer slots are opened block by block.
        end: first column behind the answer.
        block_length: slots per block, as trained.
        sub_block_length: candidates come from the leftmost sub-block with an open slot; None: the whole block.
        steps: scheduled passes per block; None commits one slot per scheduled pass.
        noise: share of masked slots over time, for ancestral schedules.
        context: columns that a block may see, itself included, where the model's window slides; None: all.
        attention: "block": a block sees itself both ways; "causal": only what is left of it, as an autoregressive model
            was trained.
        adapted: a block is read both ways, with an adapter if there is one, behind text that the causal mode reads:
            finished blocks are written causally, with the adapter off. Needs attention "causal".
        scheme: what is kept between passes.
        stored: leading columns whose keys and values are already stored; a multiple of `block_length`.
        fuse_write: store decided blocks in the next block's first pass; with shifted logits it needs `adapted`,
            and that pass commits the block's first slot: the row before it is the causal mode's.
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
        noise: Noise = "loglinear",
        context: int | None = None,
        shift: bool = False,
        attention: Attention = "block",
        adapted: bool = False,
        scheme: BlockScheme = "block",
        stored: int = 0,
        fuse_write: bool = False,
        finish_block: bool = False,
        write_last: bool = False,
        past_stop: bool = False,
    ) -> None:
        assert attention == "causal" or not adapted, "the text before a block is the causal mode's"
        assert adapted or not (shift and fuse_write), (
            "a shifted model needs the write pass for the next block's first slot"
        )
        super().__init__(canvas, end=end, stop_ids=stop_ids)
        self.chooser = chooser
        self.block_length = block_length
        self.sub_block_length = sub_block_length or block_length
        self.schedule = PassSchedule(
            kind=chooser.policy.schedule, total=block_length, steps=steps, eps=eps, noise=noise
        )
        self.context = context
        self.shift = shift
        self.attention: Attention = attention
        self.adapted = adapted
        self.scheme: BlockScheme = scheme
        self.stored = stored
        self.fuse_write = fuse_write
        self.finish_block = finish_block
        self.write_last = write_last
        self.past_stop = past_stop
        self.writing = False  # the planned pass is a write
        self.refresh = False  # a neighbour in a lockstep batch asks for a whole-block pass (see `anyorder.reference`)
        self.last: FinishReason | None = None  # set while the last block still has to be written
        self._enter()

    def resume(self, stored: int) -> None:
        """See `Decoder.resume`; part of a block is as good as nothing of it."""
        super().resume(stored // self.block_length * self.block_length)

    def _enter(self) -> None:
        """Turn to the first block that is not all decided."""
        start = self._first_unknown() // self.block_length * self.block_length
        self.block = Span(start, start + self.block_length)
        self.step = 0
        self.computed = False  # the block's columns were fed since it was entered

    def _first_unknown(self) -> int:
        """The first column behind `stored` that is open or not yet part of the canvas."""
        open_slots = self.canvas.open_slots(self.stored)
        return int(open_slots[0]) if open_slots.numel() else len(self.canvas)

    def _open(self) -> list[Event]:
        """Open the block's answer slots, and those of the next ones as long as the caller forced all of them."""
        events: list[Event] = []
        while (missing := min(self.block.end, self.end) - len(self.canvas)) > 0:
            events.append(self.canvas.grow(missing))
            self._enter()
        return events

    def _begin(self) -> list[Event]:
        return self._open() + super()._begin()

    @property
    def pending(self) -> bool:
        """True if decided blocks before the block are not stored yet."""
        return self.block.start > self.stored

    @property
    def stage(self) -> tuple[int, int]:
        """(block, sub-block) of the next pass, in the order of decoding; a write follows the block's last sub-block."""
        if self.pending and not self.fuse_write:
            return self.block.start // self.block_length - 1, self.block_length // self.sub_block_length
        sub_block = (self.sub_block().start - self.block.start) // self.sub_block_length
        return self.block.start // self.block_length, sub_block

    def sub_block(self) -> Span:
        """The leftmost sub-block of the block with an open slot."""
        first = int(self.canvas.open_slots(self.block.start, self.block.end)[0])
        start = first - (first - self.block.start) % self.sub_block_length
        return Span(start, start + self.sub_block_length)

    def needs_refresh(self) -> bool:
        """True if the sub-block's neighbours must be recomputed: see `cache.schemes.block_span`."""
        return not self.computed or bool(self.canvas.open[self.sub_block().start])

    def plan(self) -> list[Window]:
        """A write of what is decided and not stored, or else a denoising pass over the block."""
        if self.passes == self.extra_passes and self.stored and not self.pending and not self.fuse_write:
            self.extra_passes -= 1  # the write that the caller spared us
        self.writing = self.pending and (not self.fuse_write or self.last is not None)
        return self.count([self._write() if self.writing else self._denoise()])

    def _write(self) -> Window:
        end = self.block.start
        wanted = self.shift and self.last is None and end < self.end and bool(self.canvas.open[end])
        self.slots = torch.tensor([end] if wanted else [], dtype=torch.int64)
        return self._window(Span(0 if self.scheme == "none" else self.stored, end), end)

    def _denoise(self) -> Window:
        sub_block = self.sub_block()
        self.slots = self._candidates(sub_block)
        self.step = self.chooser.next_step(self.schedule, self.slots, self.step)
        span = block_span(self.scheme, sub_block, self.block, refresh=self.refresh or self.needs_refresh())
        if self.scheme == "none" and self.context is not None:  # what the window has left is not read any more
            return self._window(Span(max(self.block.end - self.context, 0), span.end), self.block.end)
        return self._window(
            Span(min(span.start, self.stored) if self.pending else span.start, span.end), self.block.end
        )

    def _candidates(self, sub_block: Span) -> Tensor:
        """[n] int64: the slots that a denoising pass decides about."""
        stop = self.stop_slot()
        limit = sub_block.end if stop is None or self.past_stop or self.finish_block else min(stop, sub_block.end)
        return self.canvas.open_slots(sub_block.start, limit)

    def _window(self, span: Span, visible: int) -> Window:
        adapted = self.adapted and not self.writing
        return Window(
            ids=self.feed(span.start, span.end),
            start=span.start,
            visible=visible,
            rows=rows_of(self.slots, span.start, shift=self.shift),
            attention=self.attention,
            block_length=self.block_length,
            context=self.context,
            phase="write" if self.writing else "denoise",
            adapted=max(self.block.start - span.start, 0) if adapted else None,
            stores=self.scheme != "none",
        )

    def decide(self, rows: list[Tensor]) -> Tensor:
        """See `Decoder.decide`."""
        decision = self._choose(rows[0], self.slots)
        if self.shift and self.fuse_write and self.pending and self.slots.numel() and self.slots[0] == self.block.start:
            decision[2, 0] = 1  # no later pass feeds the row that predicts it
        return decision

    def _choose(self, rows: Tensor, slots: Tensor) -> Tensor:
        """The policy's decision about open slots; see `Chooser.choose`."""
        return self.chooser.choose(
            rows,
            slots,
            pass_index=self.step if self.schedule.ancestral else self.passes - self.extra_passes,
            quota=self.schedule.quota(self.step, self.canvas.open_slots(self.block.start, self.block.end).shape[0]),
            probability=self.schedule.probability(self.step),
            all=self.writing,
            greedy=self.schedule.ends(self.step),
        )

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        self.stored = max(self.stored, self.block.start)
        events = self.commit(decision)
        if self.last:
            return events + self.finish(self.last)
        if not self.writing:
            self.step += 1
            self.computed = True
        return events + self._after_commit()

    def _after_commit(self) -> list[Event]:
        filled = len(self.canvas) >= min(self.block.end, self.end)
        filled = filled and self.canvas.is_filled(self.block.start, self.block.end)
        events: list[Event] = [*self._finished_blocks()] if filled else []
        reason = self.ending()
        if filled and reason is None:
            self._enter()
            events += self._open()
            reason = self.ending()  # the caller may have forced the rest
        if reason and (filled or not (self.finish_block and reason == "stop")):
            events += self._end(reason)
        return events

    def _end(self, reason: FinishReason) -> list[Event]:
        if self.write_last:
            self._enter()
            if self.pending:
                self.last = reason
                return []
        return self.finish(reason)

    def _finished_blocks(self) -> list[BlockFinished]:
        """The blocks that are finished now that this one is filled."""
        return [self._block_finished()]

    def _block_finished(self) -> BlockFinished:
        """That this block is finished."""
        index, end = self.block.start // self.block_length, min(self.block.end, self.end)
        return BlockFinished(self.canvas.request, index, self.block.start, end, self.passes)
