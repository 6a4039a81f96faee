"""Blocks whose masks are read last: what is known of a block never sees a mask; WeDLM's way."""

from __future__ import annotations

from typing import Any

import torch

from anyorder.canvas import Canvas
from anyorder.decoders.choose import Chooser
from anyorder.decoders.tail import TailDecoder
from anyorder.events import Event
from anyorder.window import Branches, Window


class ReorderedDecoder(TailDecoder):
    """Every pass feeds the known tokens in the order of their positions and behind them the masks of the block, in
    causal attention and each at its own position. So a mask sees everything that is known, on both sides of it, and
    the keys and values of the text up to the first mask are final as soon as they are computed.

    Args:
        options: of `BlockDecoder`, but for `shift`, `attention`, `adapted` and `fuse_write`.
        stored: leading columns whose keys and values are already stored, any number.
    Source: WeDLM's topological reordering and its `generate_wedlm`.
    """

    def __init__(self, canvas: Canvas, chooser: Chooser, *, stored: int = 0, **options: Any) -> None:
        self.first_open = 0  # of the planned pass
        super().__init__(canvas, chooser, attention="causal", fuse_write=True, **options)
        self.resume(stored)

    def _denoise(self) -> Window:
        start, end = 0 if self.scheme == "none" else self.stored, self.block.end
        masks = self.canvas.open_slots(self.block.start, end)
        known = (~self.canvas.open[start:end]).nonzero().squeeze(-1) + start
        self.slots, self.first_open = self._candidates(self.sub_block()), int(masks[0])
        order = torch.cat([known, masks])  # [T] columns of the canvas, as they are fed
        scattered = order[self.first_open - start :]
        count = scattered.shape[0]
        return Window(
            ids=self.canvas.ids[order],
            start=start,
            visible=end,
            rows=torch.searchsorted(masks, self.slots) + known.shape[0],
            attention="causal",
            stores=self.scheme != "none",
            branches=Branches(positions=scattered, sees=torch.ones(count, count, dtype=torch.bool).tril()),
        )

    def apply(self, decision: torch.Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        self.stored = max(self.stored, self.first_open)
        return super().apply(decision)
