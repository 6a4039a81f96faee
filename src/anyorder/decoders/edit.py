"""Block after block, and inside a block what was committed may still be corrected; LLaDA2.1's draft-and-edit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from anyorder.cache.schemes import Span
from anyorder.canvas import Canvas
from anyorder.decoders.base import alternatives, check
from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.choose import Chooser
from anyorder.events import Event
from anyorder.policies import revise


@dataclass(frozen=True, slots=True, kw_only=True)
class Editing:
    """When a committed token is replaced, and for how long."""

    threshold: float
    """A token is replaced by another one that the model is more sure of than this."""
    max_post_passes: int = 16
    """Passes over a block without open slots; 0: a block is finished as soon as it is full."""
    cycle_guard: bool = True
    """Finish a full block that comes back to a state it was in: from there on it would go in circles."""


class EditingDecoder(BlockDecoder):
    """Every pass commits open slots of the block as the policy says, and replaces committed ones that read otherwise.

    A block is finished when it is full and a pass over it changed nothing, or after `max_post_passes` such passes, or
    when it comes back to a state that it was in. Only then do its keys and values count as stored, and only then is a
    stop token in it heeded. Tokens of the prompt, and those that the caller forced, stay.

    Args:
        editing: when tokens are replaced.
        options: of `BlockDecoder`; logits in place, no sub-blocks.
    Source: LLaDA2.1, arXiv:2602.08676 and its `generate`; the guard is ours.
    """

    def __init__(self, canvas: Canvas, chooser: Chooser, *, editing: Editing, **options: Any) -> None:
        self.editing = editing
        self.num_open = 0  # candidates of the planned pass that are open; they come first
        self.post_passes = 0
        self.seen: set[tuple[int, ...]] = set()  # states of the full block
        self.settled = False
        super().__init__(canvas, chooser, **options)
        assert not self.shift, "a row must predict its own slot"

    def _enter(self) -> None:
        super()._enter()
        self.post_passes, self.seen, self.settled = 0, set(), False

    @property
    def edited(self) -> Span:
        """The columns that the pass may correct."""
        return self.block

    @property
    def most_passes(self) -> int:
        """Passes over these columns that may still correct them, once they are full."""
        return self.editing.max_post_passes

    def sub_block(self) -> Span:
        """The block: a correction may be anywhere in it."""
        return self.block

    def _candidates(self, sub_block: Span) -> Tensor:
        start, end = sub_block.start, sub_block.end
        open_slots = self.canvas.open_slots(start, end)
        self.num_open = open_slots.shape[0]
        return torch.cat([open_slots, self.canvas.committed[start:end].nonzero().squeeze(-1) + start])

    def decide(self, rows: list[Tensor]) -> Tensor:
        """See `Decoder.decide`; the columns of open slots come first."""
        if self.writing:
            return super().decide(rows)
        edited = self._edit(rows[0][self.num_open :])
        if not self.num_open:
            return edited
        return torch.cat([self._choose(rows[0][: self.num_open], self.slots[: self.num_open]), edited], 1)

    def _edit(self, rows: Tensor) -> Tensor:
        slots = self.slots[self.num_open :]
        decision = self.chooser.choose(rows, slots, pass_index=self.passes - self.extra_passes, all=True)
        current = self.canvas.ids[slots].to(rows.device, non_blocking=True)
        decision[2] = revise.edit(decision[1], decision[0], current, self.editing.threshold).to(decision.dtype)
        return decision

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        if self.writing:
            return super().apply(decision)
        self.stored = max(self.stored, self.block.start)
        check(decision)
        slots, pass_index, was_full = self.slots, self.passes, not self.num_open
        self.slots = slots[: self.num_open]
        events = [replace(event, provisional=True) for event in self.commit(decision[:, : self.num_open])]
        revised = self._revise(slots[self.num_open :], decision[:, self.num_open :], pass_index)
        self.step += 1
        self.computed = True
        self.settled = self._is_settled(changed=bool(revised), was_full=was_full)
        return events + revised + self._after_commit()

    def _revise(self, slots: Tensor, decision: Tensor, pass_index: int) -> list[Event]:
        chosen = decision[2] > 0
        if not bool(chosen.any()):
            return []
        ids, confidence = decision[0][chosen].to(torch.int64), decision[1][chosen]
        event = replace(self.canvas.revise(slots[chosen], ids, confidence, pass_index), provisional=True)
        return [replace(event, alternatives=alternatives(decision[3:, chosen])) if decision.shape[0] > 3 else event]

    def _is_settled(self, *, changed: bool, was_full: bool) -> bool:
        """Are the columns finished after a pass that changed something or nothing?"""
        if not self.canvas.is_filled(self.edited.start, self.edited.end):
            return False
        state = self._state()
        again, self.post_passes = state in self.seen, self.post_passes + 1
        self.seen.add(state)
        spent = self.post_passes > self.most_passes
        return spent or (was_full and not changed) or (again and self.editing.cycle_guard)

    def _state(self) -> tuple[int, ...]:
        return tuple(self.canvas.ids[self.edited.start : self.edited.end].tolist())

    def _after_commit(self) -> list[Event]:
        return super()._after_commit() if self.settled else []
