"""Several causal tokens per pass and exactly the text of one per pass: draft, verify in one forward, keep the match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from anyorder.canvas import Canvas
from anyorder.decoders.base import DecoderBase
from anyorder.decoders.causal import SLOT_DRAW
from anyorder.decoders.choose import Chooser
from anyorder.events import Event
from anyorder.window import Window


class Drafter(Protocol):
    """Guesses what comes next; a wrong guess costs positions, never the text."""

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """Up to `count` tokens that may follow `ids`."""
        ...


class LookupDrafter:
    """Copies what followed the last time that the context's end occurred in the context.

    Args:
        longest: tokens of the longest end that is looked up; shorter ones are tried next.
        shortest: of the shortest.
    Source: prompt lookup decoding (A. Saxena, 2023).
    """

    def __init__(self, *, longest: int = 4, shortest: int = 1) -> None:
        self.sizes = range(longest, shortest - 1, -1)
        self.followers: dict[tuple[int, ...], int] = {}  # an n-gram -> the column behind its last occurrence
        self.seen = 0

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """See `Drafter.propose`; `ids` must begin with those of the last call."""
        self._read(ids)
        for size in self.sizes:
            start = self.followers.get(tuple(ids[-size:])) if len(ids) >= size else None
            if start is not None:
                return list(ids[start : start + count])
        return []

    def _read(self, ids: Sequence[int]) -> None:
        """Take in the columns that have a follower; the context's end itself has none yet."""
        for column in range(max(self.seen, 1), len(ids)):
            for size in self.sizes:
                if column >= size:
                    self.followers[tuple(ids[column - size : column])] = column
        self.seen = len(ids)


class SpeculativeDecoder(DecoderBase):
    """Feeds what is decided and not stored together with a draft, and commits as far as the model agrees.

    Every row's token is the one that one-token-at-a-time decoding would take there: the best, or the one that the
    slot's own random number draws. The rows up to the first that contradicts the draft saw only tokens that stand, so
    their tokens stand, and the contradicting one is a token gained. The text is that of `CausalDecoder` exactly, as
    long as the network's numbers do not depend on how many rows it computes at once.

    Args:
        canvas: the prompt, without holes, and its open answer slots.
        draft_length: most tokens drafted per pass.
        stored: leading columns whose keys and values are already stored.
    """

    def __init__(
        self,
        canvas: Canvas,
        chooser: Chooser,
        drafter: Drafter,
        *,
        draft_length: int,
        stop_ids: tuple[int, ...],
        stored: int = 0,
    ) -> None:
        super().__init__(canvas, end=len(canvas), stop_ids=stop_ids)
        self.chooser = chooser
        self.drafter = drafter
        self.draft_length = draft_length
        self.stored = stored
        self.next = canvas.answer_start
        self.draft = torch.empty(0, dtype=torch.int64)

    def plan(self) -> list[Window]:
        """The columns up to the next slot and the draft behind them; a row for the next slot and for every draft."""
        count = min(self.draft_length, self.end - self.next - 1)
        self.draft = torch.tensor(self.drafter.propose(self.canvas.ids[: self.next].tolist(), count), dtype=torch.int64)
        visible = self.next + self.draft.shape[0]
        self.slots = torch.arange(self.next, visible + 1)
        window = Window(
            ids=torch.cat([self.feed(self.stored, self.next), self.draft]),
            start=self.stored,
            visible=visible,
            rows=self.slots - self.stored - 1,
            attention="causal",
            phase="prefill" if self.next == self.canvas.answer_start else "denoise",
        )
        return self.count([window])

    def decide(self, rows: list[Tensor]) -> Tensor:
        """See `Decoder.decide`: commits up to and including the first token that the draft got wrong."""
        decision = self.chooser.choose(rows[0], self.slots, pass_index=SLOT_DRAW, all=True)
        taken = decision[0, :-1].to(torch.int64)
        agrees = taken == self.draft.to(taken.device)
        goes_on = ~torch.isin(taken, self.stop_ids.to(taken.device))  # nothing is decided behind a stop token
        decision[2, 1:] = (agrees & goes_on).cumprod(-1)
        return decision

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        committed = int(decision[2].sum())
        events = self.commit(decision)
        self.next += committed
        self.stored = self.next - 1  # the last committed token was not fed
        reason = self.ending()
        return events + self.finish(reason) if reason else events
