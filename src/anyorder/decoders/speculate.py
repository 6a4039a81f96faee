"""Several causal tokens per pass and exactly the text of one per pass: draft, verify in one forward, keep the match."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyorder.canvas import Canvas
from anyorder.decoders.base import DecoderBase
from anyorder.decoders.causal import SLOT_DRAW
from anyorder.decoders.choose import Chooser
from anyorder.decoders.draft import DraftTree, accepted
from anyorder.decoders.drafters import Drafter
from anyorder.decoders.forecast import Forecast, Masks, likely_ends
from anyorder.events import Event
from anyorder.window import Window


class SpeculativeDecoder(DecoderBase):
    """Feeds what is decided and not stored together with a draft, and commits as far as the model agrees.

    A row of the draft sees the text and its own path in the tree, so its token is the one that one-token-at-a-time
    decoding would take behind this path: the best, or the one that the slot's own random number draws. A path is kept
    as long as its tokens are those that were taken in front of them, and the token taken behind it is one gained. The
    text is that of `CausalDecoder` exactly, as long as the network's numbers do not depend on how many rows it computes
    at once.

    With masks a denoiser forecasts what the next draft needs, in the same pass: see `anyorder.decoders.forecast`.

    The keys and values of a path lie where its nodes were fed. What is not in its place moves there in the next pass.

    Args:
        canvas: the prompt, without holes, and its open answer slots.
        stored: leading columns whose keys and values are already stored.
        mask_groups: places per pass behind which masks are fed, with the adapter on; 0: there is no denoiser.
        masks: of a group.
    """

    def __init__(
        self,
        canvas: Canvas,
        chooser: Chooser,
        drafter: Drafter,
        *,
        stop_ids: tuple[int, ...],
        stored: int = 0,
        mask_groups: int = 0,
        masks: int = 0,
    ) -> None:
        super().__init__(canvas, end=len(canvas), stop_ids=stop_ids)
        self.chooser = chooser
        self.drafter = drafter
        self.stored = stored
        self.next = canvas.answer_start
        self.moved: Tensor | None = None  # columns of accepted tokens that are to move in front of `stored`
        self.tree = DraftTree()
        self.lineage = self.tree.lineage()
        self.mask_groups = mask_groups
        self.mask_length = masks
        self.masks = Masks()
        self.forecasts: tuple[Forecast, ...] = ()

    def forget(self) -> None:
        """See `Decoder.forget`; what is computed anew lies in its place."""
        super().forget()
        self.moved = None

    def plan(self) -> list[Window]:
        """The columns up to the next slot, the draft and the masks behind them; a row for the next slot and for every
        draft and mask."""
        text = self.canvas.ids[: self.next].tolist()
        self.tree = self.drafter.draft(text, self.end - self.next - 1, self.forecasts)
        self.lineage = self.tree.lineage()
        self.masks = Masks(likely_ends(self.tree, self.mask_groups), self.mask_length)
        branches = self.masks.extend(self.tree, self.lineage, self.next - 1)
        nodes = len(self.tree)
        self.slots = torch.cat([torch.tensor([self.next]), branches.positions[:nodes] + 1])
        fed, drafted = self.feed(self.stored, self.next), torch.tensor(self.tree.tokens, dtype=torch.int64)
        masks = drafted.new_full((len(self.masks),), self.canvas.mask_id)
        window = Window(
            ids=torch.cat([fed, drafted, masks]),
            start=self.stored,
            visible=self.next + nodes + len(self.masks),
            rows=torch.arange(fed.shape[0] - 1, fed.shape[0] + nodes + len(self.masks)),
            attention="causal",
            phase="prefill" if self.next == self.canvas.answer_start else "denoise",
            adapted=fed.shape[0] + nodes if len(self.masks) else None,
            branches=None if self.tree.is_line and not len(self.masks) else branches,
            moved=self.moved,
        )
        return self.count([window])

    def decide(self, rows: list[Tensor]) -> Tensor:
        """See `Decoder.decide`: commits up to and including the first token that the draft got wrong; behind the
        candidates stand the forecasts."""
        verified, forecast = rows[0].split_with_sizes([1 + len(self.tree), len(self.masks)])
        decision = self.chooser.choose(verified, self.slots, pass_index=SLOT_DRAW, all=True)
        decision[2, 1:] = accepted(self.tree, self.lineage, decision[0].to(torch.int64), self.stop_ids)
        if not len(self.masks):
            return decision
        packed = self.masks.pack(forecast, self.canvas.mask_id)
        return torch.cat([decision, F.pad(packed, (0, 0, 0, decision.shape[0] - packed.shape[0]))], -1)

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        decision, forecast = decision.tensor_split([1 + len(self.tree)], -1)
        events = self.commit(decision)
        path = decision[2, 1:].nonzero().flatten()  # parents come before children
        self.forecasts = self.masks.unpack(forecast[:3], int(path[-1]) if path.numel() else -1)
        in_place = int((path == torch.arange(path.shape[0])).cumprod(0).sum())
        self.moved = self.next + path[in_place:] if in_place < path.shape[0] else None
        self.stored = self.next + path.shape[0]  # the last committed token was not fed
        self.next = self.stored + 1
        reason = self.ending()
        if reason is None:
            return events
        self.stored -= path.shape[0] - in_place  # nothing moves any more
        return events + self.finish(reason)
