"""Drafts by the same weights in their other mode: one pass denoises a block of masks, the next verifies it causally."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from anyorder.canvas import Canvas
from anyorder.decoders.base import check
from anyorder.decoders.choose import Chooser
from anyorder.decoders.draft import DraftTree
from anyorder.decoders.forecast import Forecast
from anyorder.decoders.speculate import SpeculativeDecoder
from anyorder.draws import wide_dtype
from anyorder.events import Event
from anyorder.policies import score
from anyorder.policies.sample import best
from anyorder.window import Window


class _Held:
    """A drafter that hands out what it was given, once."""

    def __init__(self) -> None:
        self.tokens: list[int] = []

    def draft(self, ids: Sequence[int], depth: int, forecasts: Sequence[Forecast] = ()) -> DraftTree:
        """See `Drafter.draft`."""
        tokens, self.tokens = self.tokens[:depth], []
        return DraftTree.line(tokens)


class SelfDraftingDecoder(SpeculativeDecoder):
    """The text of `CausalDecoder`, two passes for as many tokens as both modes of the model agree on, and one more.

    The draft pass feeds the last token of the text and masks behind it, all of which see each other, with the adapter
    on if there is one; what it stores is overwritten by the verify pass.

    Args:
        length: tokens drafted at most.
        options: of `SpeculativeDecoder`, but for the drafter and masks.
    Source: Nemotron-Labs-Diffusion, `linear_spec_generate` at threshold 0.
    """

    def __init__(self, canvas: Canvas, chooser: Chooser, *, length: int, **options: Any) -> None:
        self.held = _Held()
        self.length = length
        self.drafting = False
        super().__init__(canvas, chooser, self.held, **options)

    def plan(self) -> list[Window]:
        """A draft where there is none and room for one, else what `SpeculativeDecoder` plans."""
        room = min(self.length, self.end - self.next - 1)
        seeded = self.next > self.canvas.answer_start and self.stored == self.next - 1  # only its last token is unread
        self.drafting = seeded and room > 0 and not self.held.tokens
        if not self.drafting:
            return super().plan()
        self.slots = torch.arange(self.next, self.next + room)
        masks = torch.full((room,), self.canvas.mask_id)
        window = Window(
            ids=torch.cat([self.feed(self.stored, self.next), masks]),
            start=self.stored,
            visible=self.next + room,
            rows=torch.arange(1, room + 1),
            attention="causal",
            adapted=0,
            moved=self.moved,
        )
        return self.count([window])

    def decide(self, rows: list[Tensor]) -> Tensor:
        """See `Decoder.decide`; a draft commits nothing."""
        if not self.drafting:
            return super().decide(rows)
        logits = self.chooser.sampling.adjust(rows[0])
        logits[:, self.canvas.mask_id] = -torch.inf
        ids, wide = best(logits), wide_dtype(logits.device)
        return torch.stack([ids.to(wide), score.probability(logits, ids).to(wide), torch.zeros_like(ids, dtype=wide)])

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        if not self.drafting:
            return super().apply(decision)
        check(decision)
        self.held.tokens = decision[0].to(torch.int64).tolist()
        self.moved = None
        self.passes += 1
        return []
