"""Chunked prefill: the first columns of a long prompt, some per pass, so that nobody waits for all of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyorder.decoders.base import Decoder
from anyorder.pictures import Placed
from anyorder.window import Attention, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefill:
    """How a prompt is computed in chunks. Exact where a finished column does not depend on what stands behind it.

    The decoder's own first pass computes the last chunk; its logits are wanted. With `whole` chunks compute all
    columns: they were computed before, and lost.
    """

    attention: Attention
    block_length: int
    chunk: int
    """Columns per pass; a multiple of `block_length`."""
    columns: int
    """Leading columns of the prompt without a hole; with `whole`, those that were lost."""
    whole: bool = False
    pictures: tuple[Placed, ...] = ()
    """Each is computed in one pass: its columns see each other."""

    def tokens(self, stored: int) -> int:
        """Columns of the prompt that the next pass computes."""
        return max(0, self._end(stored) - stored)

    def _end(self, start: int) -> int:
        """First column behind a chunk that begins at `start`."""
        end = min(start + self.chunk, self.columns)
        return next((placed.end for placed in self.pictures if placed.start < end < placed.end), end)

    def window(self, decoder: Decoder) -> Window | None:
        """The next chunk, or None where the decoder goes on by itself."""
        start = decoder.stored
        end = self._end(start)
        if start >= self.columns or (end >= self.columns and not self.whole):
            return None
        return Window(
            ids=decoder.canvas.ids[start:end],
            start=start,
            visible=end,
            rows=torch.empty(0, dtype=torch.int64),
            attention=self.attention,
            block_length=self.block_length,
            phase="prefill",
        )
