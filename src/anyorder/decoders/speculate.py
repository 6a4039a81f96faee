"""Several causal tokens per pass and exactly the text of one per pass: draft, verify in one forward, keep the match."""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.canvas import Canvas
from anyorder.decoders.base import DecoderBase
from anyorder.decoders.causal import SLOT_DRAW
from anyorder.decoders.choose import Chooser
from anyorder.decoders.draft import DraftTree, accepted
from anyorder.decoders.drafters import Drafter
from anyorder.events import Event
from anyorder.window import Branches, Window


class SpeculativeDecoder(DecoderBase):
    """Feeds what is decided and not stored together with a draft, and commits as far as the model agrees.

    A row of the draft sees the text and its own path in the tree, so its token is the one that one-token-at-a-time
    decoding would take behind this path: the best, or the one that the slot's own random number draws. A path is kept
    as long as its tokens are those that were taken in front of them, and the token taken behind it is one gained. The
    text is that of `CausalDecoder` exactly, as long as the network's numbers do not depend on how many rows it computes
    at once.

    The keys and values of a path lie where its nodes were fed. What is not in its place moves there in the next pass.

    Args:
        canvas: the prompt, without holes, and its open answer slots.
        stored: leading columns whose keys and values are already stored.
    """

    def __init__(
        self, canvas: Canvas, chooser: Chooser, drafter: Drafter, *, stop_ids: tuple[int, ...], stored: int = 0
    ) -> None:
        super().__init__(canvas, end=len(canvas), stop_ids=stop_ids)
        self.chooser = chooser
        self.drafter = drafter
        self.stored = stored
        self.next = canvas.answer_start
        self.moved: Tensor | None = None  # columns of accepted tokens that are to move in front of `stored`
        self.tree = DraftTree()
        self.lineage = self.tree.lineage()

    def plan(self) -> list[Window]:
        """The columns up to the next slot and the draft behind them; a row for the next slot and for every draft."""
        self.tree = self.drafter.draft(self.canvas.ids[: self.next].tolist(), self.end - self.next - 1)
        self.lineage = self.tree.lineage()
        positions = self.next - 1 + torch.tensor(self.tree.depths(), dtype=torch.int64)
        self.slots = torch.cat([torch.tensor([self.next]), positions + 1])
        fed, drafted = self.feed(self.stored, self.next), torch.tensor(self.tree.tokens, dtype=torch.int64)
        window = Window(
            ids=torch.cat([fed, drafted]),
            start=self.stored,
            visible=self.next + len(self.tree),
            rows=torch.arange(fed.shape[0] - 1, fed.shape[0] + len(self.tree)),
            attention="causal",
            phase="prefill" if self.next == self.canvas.answer_start else "denoise",
            branches=None if self.tree.is_line else Branches(positions=positions, sees=self.lineage),
            moved=self.moved,
        )
        return self.count([window])

    def decide(self, rows: list[Tensor]) -> Tensor:
        """See `Decoder.decide`: commits up to and including the first token that the draft got wrong."""
        decision = self.chooser.choose(rows[0], self.slots, pass_index=SLOT_DRAW, all=True)
        decision[2, 1:] = accepted(self.tree, self.lineage, decision[0].to(torch.int64), self.stop_ids)
        return decision

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        events = self.commit(decision)
        path = decision[2, 1:].nonzero().flatten()  # parents come before children
        in_place = int((path == torch.arange(path.shape[0])).cumprod(0).sum())
        self.moved = self.next + path[in_place:] if in_place < path.shape[0] else None
        self.stored = self.next + path.shape[0]  # the last committed token was not fed
        self.next = self.stored + 1
        reason = self.ending()
        if reason is None:
            return events
        self.stored -= path.shape[0] - in_place  # nothing moves any more
        return events + self.finish(reason)
