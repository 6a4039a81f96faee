"""Text that is all there: how probable its tokens are. A scorer is driven like a decoder and decides nothing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from anyorder.canvas import Canvas
from anyorder.decoders.base import DecoderBase, alternatives
from anyorder.draws import Draws, wide_dtype
from anyorder.errors import ModelError
from anyorder.events import Event, Scored
from anyorder.policies.score import log_probabilities
from anyorder.window import Window

ROWS = 64
"""Rows of logits that are judged at once: what a softmax takes besides them stays small."""


def refuse_nan(logprobs: Tensor) -> None:
    """Raise ModelError if the network computed nan."""
    if bool(logprobs.isnan().any()):
        raise ModelError("the model's logits are nan: its weights are damaged, or its numbers overflow")


class Scorer(DecoderBase):
    """What scorers share: they judge the rows of a pass against the given tokens.

    Args:
        canvas: given slots only.
        first: slot to begin with.
        top: likeliest tokens to report beside every given one.
        mask_id: a token that counts as impossible; None: there is none.
    """

    def __init__(self, canvas: Canvas, *, first: int, top: int = 0, mask_id: int | None = None) -> None:
        super().__init__(canvas, end=len(canvas), stop_ids=())
        self.next = first
        self.top = top
        self.mask_id = mask_id

    def _begin(self) -> list[Event]:
        return [] if self.next < self.end else self.finish("length")

    def decide(self, rows: list[Tensor]) -> Tensor:
        """[1 + 2 K, n] on the device of the rows: logarithms of the given tokens, K likeliest ids, their logarithms."""
        logits = torch.cat(rows)
        given = self.canvas.ids[self.slots].to(logits.device, non_blocking=True)
        judged = zip(logits.split(ROWS), given.split(ROWS), strict=True)
        return torch.cat([self._judge(part, ids) for part, ids in judged], -1)

    def _judge(self, logits: Tensor, ids: Tensor) -> Tensor:
        if self.mask_id is not None:
            logits[:, self.mask_id] = -torch.inf
        own, best, values = log_probabilities(logits, ids, self.top)
        wide = wide_dtype(logits.device)
        return torch.cat([own[None].to(wide), best.T.to(wide), values.T.to(wide)])

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`: says what was found."""
        refuse_nan(decision[0])
        self.passes += 1
        events = self._found(decision) if self.slots.numel() else []
        return events if self.next < self.end else events + self.finish("length")

    def _found(self, decision: Tensor) -> list[Event]:
        self.next = int(self.slots[-1]) + 1
        best = alternatives(decision[1:], impossible=-torch.inf) if decision.shape[0] > 1 else ()
        return [Scored(self.canvas.request, tuple(self.slots.tolist()), tuple(decision[0].tolist()), best)]


class CausalScorer(Scorer):
    """Reads the text once from left to right, in chunks: every token given those before it, exactly.

    Args:
        chunk: columns per pass.
    """

    def __init__(self, canvas: Canvas, *, first: int, chunk: int, top: int = 0) -> None:
        assert first > 0, "nothing stands before the first token"
        super().__init__(canvas, first=first, top=top)
        self.chunk = chunk

    @property
    def reads(self) -> int:
        """See `Decoder.reads`."""
        return max(0, min(self.end - 1 - self.stored, self.chunk))

    def resume(self, stored: int) -> None:
        """See `Decoder.resume`."""
        assert stored < self.next, "the row before the first scored slot is wanted"
        super().resume(stored)

    def plan(self) -> list[Window]:
        """The next columns; a row for every slot behind them that is to be scored. The last token is never fed."""
        start, end = self.stored, self.stored + self.reads
        self.slots = torch.arange(max(self.next, start + 1), end + 1)
        window = Window(
            ids=self.canvas.ids[start:end],
            start=start,
            visible=end,
            rows=self.slots - 1 - start,
            attention="causal",
            phase="prefill",
        )
        return self.count([window])

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Scorer.apply`."""
        self.stored += self.reads
        return super().apply(decision)


class MaskedScorer(Scorer):
    """Masks the text anew for every slot: as many slots per pass as fit, each in windows of its own.

    Args:
        windows: slot -> its windows; the last one's only row, and no other one, predicts it.
        tokens: fed per pass at most; what a slot needs is fed at once.
    """

    def __init__(
        self,
        canvas: Canvas,
        windows: Callable[[int], list[Window]],
        *,
        first: int,
        tokens: int,
        top: int = 0,
        mask_id: int | None = None,
    ) -> None:
        super().__init__(canvas, first=first, top=top, mask_id=mask_id)
        self.windows = windows
        self.tokens = tokens

    def plan(self) -> list[Window]:
        """The windows of the next slots."""
        planned: list[Window] = []
        left, slot = self.tokens, self.next
        while slot < self.end:
            windows = self.windows(slot)
            left -= sum(window.ids.shape[0] for window in windows)
            if planned and left < 0:
                break
            planned += windows
            slot += 1
        self.slots = torch.arange(self.next, slot)
        return self.count(planned)


class MonteCarloScorer(Scorer):
    """Masks random sets of the scored slots, every size of a set equally often, to estimate the evidence lower bound.

    With L scored slots, a sample masks l of them and counts L / l times what the masked ones have. The samples' mean is
    an unbiased estimate of a lower bound of the text's log-probability, which exact conditionals reach. A slot's number
    is its share of that sum.

    Args:
        window: slots -> the window whose rows predict them, all of them masked.
        samples: sets of slots.
        tokens: fed per pass at most; a longer window is fed alone.
    Source: LLaDA, arXiv:2502.09992, equation 6 and its evaluation code, which spreads the numbers as evenly.
    """

    def __init__(
        self,
        canvas: Canvas,
        window: Callable[[Tensor], Window],
        *,
        first: int,
        samples: int,
        tokens: int,
        draws: Draws,
        mask_id: int,
    ) -> None:
        super().__init__(canvas, first=first, mask_id=mask_id)
        self.window = window
        self.samples = samples
        self.tokens = tokens
        self.draws = draws
        self.first = first
        self.sample = 0
        self.sums = torch.zeros(max(self.end - first, 0), dtype=torch.float64)
        self.weights = torch.empty(0, dtype=torch.float64)  # of the rows of the planned pass
        self.sizes: list[int] = []  # of the planned pass: rows of each sample
        self.totals: list[float] = []  # estimates of the whole sum, one per sample

    def _masked(self, sample: int) -> Tensor:
        """The slots that a sample masks, ascending."""
        slots = torch.arange(self.first, self.end)
        start = float(self.draws.uniform(slots[:1], 0))
        count = 1 + int((start + sample / self.samples) % 1 * len(slots))
        return slots[self.draws.uniform(slots, sample, "slot").argsort()[:count]].sort().values

    def plan(self) -> list[Window]:
        """The windows of the next samples."""
        count = max(1, min(self.samples - self.sample, self.tokens // self.end))
        masked = [self._masked(sample) for sample in range(self.sample, self.sample + count)]
        windows = [self.window(slots) for slots in masked]
        self.slots = torch.cat(masked)
        self.sizes = [len(slots) for slots in masked]
        weights = [torch.full(slots.shape, len(self.sums) / len(slots) / self.samples) for slots in masked]
        self.weights = torch.cat(weights).double()
        self.sample += count
        return self.count(windows)

    def _found(self, decision: Tensor) -> list[Event]:
        shares = decision[0].double() * self.weights
        self.sums.index_add_(0, self.slots - self.first, shares)
        self.totals += [float(part.sum()) * self.samples for part in shares.split(self.sizes)]
        if self.sample < self.samples:
            return []
        self.next = self.end
        slots = tuple(range(self.first, self.end))
        return [Scored(self.canvas.request, slots, tuple(self.sums.tolist()), error=self._error())]

    def _error(self) -> float | None:
        """Of the mean of the samples, as if they were drawn independently: evenly spread sizes make it smaller."""
        totals = torch.tensor(self.totals, dtype=torch.float64)
        return float(totals.std() / len(totals) ** 0.5) if len(totals) > 1 else None
