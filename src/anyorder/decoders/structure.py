"""Draft-and-edit that may also insert and delete tokens of the block; LLaDA2.2's decoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from anyorder.cache.schemes import Span
from anyorder.canvas import Canvas
from anyorder.decoders.base import check
from anyorder.decoders.choose import Chooser
from anyorder.decoders.edit import Editing, EditingDecoder
from anyorder.draws import wide_dtype
from anyorder.events import Event
from anyorder.policies import score
from anyorder.policies.sample import best
from anyorder.policies.structure import Cell, Progress, Reading, Rules, refine


class StructureDecoder(EditingDecoder):
    """As `EditingDecoder`, with the two control tokens of a model that inserts and deletes.

    The block keeps its length: what is deleted makes room for masks at its end, what is inserted pushes tokens out of
    it. So the slots of finished blocks and of the prompt never move. Every pass reads all slots of the block behind the
    prompt; `policies.structure` says what becomes of them. Only greedy decoding is defined.

    Args:
        rules: of the refinement.
        options: as for `EditingDecoder`; the canvas has no holes and no forced tokens.
    """

    def __init__(self, canvas: Canvas, chooser: Chooser, *, rules: Rules, **options: Any) -> None:
        self.rules = rules
        self.progress = Progress(0)
        self.original: list[bool] = []
        editing = Editing(threshold=rules.edit_threshold, max_post_passes=rules.max_post_passes)
        super().__init__(canvas, chooser, editing=editing, **options)
        assert chooser.sampling.temperature == 0, "sampling is not defined for inserting and deleting"

    def _enter(self) -> None:
        super()._enter()
        self.original = []

    def _candidates(self, sub_block: Span) -> Tensor:
        start, end = sub_block.start, sub_block.end
        slots = (~self.canvas.given[start:end]).nonzero().squeeze(-1) + start
        if not self.original:  # the block's first pass
            self.original = self.canvas.open[slots].tolist()
            self.progress = Progress(sum(self.original))
        self.num_open = int(self.canvas.open[slots].sum())
        return slots

    def decide(self, rows: list[Tensor]) -> Tensor:
        """[6, n]: the best token of every slot and its probability, the second, the best that is no control token."""
        if self.writing:
            return super().decide(rows)
        logits = self.chooser.sampling.adjust(rows[0])
        first = best(logits)
        without_first = logits.scatter(-1, first[:, None], -torch.inf)
        control = torch.tensor([self.rules.delete_id, self.rules.insert_id], device=logits.device)
        choices = (first, best(without_first), best(logits.index_fill(-1, control, -torch.inf)))
        wide = wide_dtype(logits.device)
        return torch.stack([part.to(wide) for ids in choices for part in (ids, score.probability(logits, ids))])

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        if self.writing:
            return super().apply(decision)
        check(decision)
        self.stored = max(self.stored, self.block.start)
        before = self._cells()
        readings = [Reading(*(Cell(int(row[i]), row[i + 1]) for i in (0, 2, 4))) for row in decision.T.tolist()]
        after, self.progress = refine(before, readings, self.progress, self.rules)
        self.original = [cell.original for cell in after]
        events = self._changes(before, after)
        self.step += 1
        self.passes += 1
        self.computed = True
        self.settled = self.progress.settled
        return events + self._after_commit()

    def _cells(self) -> list[Cell]:
        ids, confidence = self.canvas.ids[self.slots].tolist(), self.canvas.confidence[self.slots].tolist()
        return [Cell(*cell) for cell in zip(ids, confidence, self.original, strict=True)]

    def _changes(self, before: list[Cell], after: list[Cell]) -> list[Event]:
        """Bring the canvas from one state to the other; what moved is a revision like any other."""
        mask_id, changed = self.rules.mask_id, [a.token != b.token for a, b in zip(before, after, strict=True)]
        opened = [at for at, own in enumerate(changed) if own and after[at].token == mask_id]
        filled = [at for at, own in enumerate(changed) if own and before[at].token == mask_id]
        revised = [at for at, own in enumerate(changed) if own and at not in opened and at not in filled]
        events: list[Event] = []
        for places, write in ((filled, self.canvas.commit), (revised, self.canvas.revise)):
            if places:
                ids = torch.tensor([after[at].token for at in places])
                confidence = torch.tensor([after[at].confidence for at in places])
                event = write(self.slots[places], ids, confidence, self.passes)
                events.append(replace(event, provisional=True))
        return events + ([self.canvas.remask(self.slots[opened], self.passes)] if opened else [])
