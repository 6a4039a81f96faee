"""Blocks that begin with the causal mode's next token; Nemotron-Labs-Diffusion's way."""

from __future__ import annotations

from typing import Any

import torch

from anyorder.cache.schemes import Span
from anyorder.canvas import Canvas
from anyorder.decoders.base import rows_of
from anyorder.decoders.choose import Chooser
from anyorder.decoders.tail import TailDecoder
from anyorder.window import Window


class SeededDecoder(TailDecoder):
    """Text is written by the causal mode, a block is denoised both ways behind it, and its first slot is the token that
    the causal mode says after the text.

    So every block costs one pass more than its denoising: the write pass over the block before, the prompt first of
    all, whose last row predicts this slot.

    Args:
        options: of `BlockDecoder`, but for `shift`, `attention`, `adapted` and `fuse_write`.
        stored: leading columns whose keys and values are already stored, any number.
    """

    def __init__(self, canvas: Canvas, chooser: Chooser, *, stored: int = 0, **options: Any) -> None:
        super().__init__(canvas, chooser, attention="causal", adapted=True, **options)
        self.resume(stored)

    def resume(self, stored: int) -> None:
        """See `Decoder.resume`; the last column of the text is computed again if the next slot waits for its row."""
        start = self.block.start
        seeds = len(self.canvas) <= start or bool(self.canvas.open[start])
        super().resume(max(min(stored, start - 1), 0) if seeds else stored)

    def _write(self) -> Window:
        end = self.block.start
        wanted = self.last is None and end < self.end and bool(self.canvas.open[end])
        self.slots = torch.tensor([end] if wanted else [], dtype=torch.int64)
        window = self._window(Span(0 if self.scheme == "none" else self.stored, end), end)
        return window.wanting(rows_of(self.slots, window.start, shift=True))
