"""One token per pass, left to right: the autoregressive baseline with the same weights."""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.canvas import Canvas
from anyorder.decoders.base import DecoderBase
from anyorder.decoders.choose import Chooser
from anyorder.events import Event
from anyorder.window import Window

SLOT_DRAW = 0  # every slot is drawn once, so its random number need not depend on the pass: see `decoders.speculate`


class CausalDecoder(DecoderBase):
    """Feeds what is decided and not yet stored, predicts the next slot, commits it.

    Args:
        canvas: the prompt, without holes, and its open answer slots.
        stored: leading columns whose keys and values are already stored (an earlier turn of a chat).
        exact_cache: False recomputes every column in every pass.
    """

    def __init__(
        self, canvas: Canvas, chooser: Chooser, *, stop_ids: tuple[int, ...], stored: int = 0, exact_cache: bool = True
    ) -> None:
        super().__init__(canvas, end=len(canvas), stop_ids=stop_ids)
        self.chooser = chooser
        self.stored = stored
        self.exact_cache = exact_cache
        self.next = canvas.answer_start

    def plan(self) -> list[Window]:
        """The columns up to the next slot; its logits come from the last of them."""
        while not self.canvas.open[self.next]:  # a forced token needs no pass of its own
            self.next += 1
        start = self.stored if self.exact_cache else 0
        self.slots = torch.tensor([self.next])
        window = Window(
            ids=self.feed(start, self.next),
            start=start,
            visible=self.next,
            rows=torch.tensor([self.next - start - 1]),
            attention="causal",
            phase="prefill" if self.next == self.canvas.answer_start else "denoise",
            stores=self.exact_cache,
        )
        return self.count([window])

    def decide(self, rows: list[Tensor]) -> Tensor:
        """See `Decoder.decide`."""
        return self.chooser.choose(rows[0], self.slots, pass_index=SLOT_DRAW, all=True)

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        events = self.commit(decision)
        self.stored = self.next
        self.next += 1
        reason = self.ending()
        return events + self.finish(reason) if reason else events
