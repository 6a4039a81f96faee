"""Blocks that are counted from the end of the prompt, whatever its length."""

from __future__ import annotations

from anyorder.cache.schemes import Span
from anyorder.decoders.block import BlockDecoder
from anyorder.events import BlockFinished


class TailDecoder(BlockDecoder):
    """As `BlockDecoder` behind a prompt without holes that shares no block with the answer; the last block may be
    shorter."""

    def _enter(self) -> None:
        origin = self.canvas.answer_start
        start = origin + (self._first_unknown() - origin) // self.block_length * self.block_length
        self.block = Span(start, min(start + self.block_length, self.end))
        self.step = 0
        self.computed = False

    def _first_unknown(self) -> int:
        """The prompt is known, stored or not."""
        return max(super()._first_unknown(), self.canvas.answer_start)

    def resume(self, stored: int) -> None:
        """See `Decoder.resume`; any number of columns will do."""
        self.stored = stored

    def _block_finished(self) -> BlockFinished:
        return self._finished((self.block.start - self.canvas.answer_start) // self.block_length)

    def _finished(self, index: int) -> BlockFinished:
        start = self.canvas.answer_start + index * self.block_length
        end = min(start + self.block_length, self.end)
        return BlockFinished(self.canvas.request, index, start, end, self.passes)
