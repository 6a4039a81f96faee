"""Canvas after canvas of noise, DiffusionGemma's way: what a pass is not sure of becomes new noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from anyorder.cache.schemes import Span
from anyorder.canvas import Canvas
from anyorder.decoders.base import DecoderBase, alternatives, check
from anyorder.decoders.choose import Sampling
from anyorder.draws import wide_dtype
from anyorder.events import BlockFinished, Decided, Event
from anyorder.policies import renoise, score, select
from anyorder.policies.sample import best
from anyorder.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """How a canvas of noise becomes text; the defaults are published."""

    steps: int = 48
    """Most passes over one canvas."""
    entropy_bound: float = 0.1
    """Nats of joint error that a pass may accept."""
    t_min: float = 0.4
    t_max: float = 0.8
    """Temperatures of the last and the first pass."""
    stability: int = 1
    """Passes that the best tokens must have stayed the same for."""
    confidence: float = 0.005
    """Nats that the mean entropy must be below."""


class RenoiseDecoder(DecoderBase):
    """Cleans one canvas at a time behind text that is stored causally.

    A pass reads the canvas both ways, draws a token for every slot and keeps the most certain ones; all others become
    new noise, also those that an earlier pass had kept. What the pass expects of every slot is told to the next one.
    The text is not what was drawn, but the best token of every slot in the last pass: commits of a canvas are
    provisional until it is finished, and the last pass says all of them once more, with its own probabilities. The
    finished canvas is stored in the next canvas's first pass, causally, which is as exact as a pass of its own.

    Args:
        canvas: the prompt, without holes; answer slots are opened canvas by canvas.
        end: first column behind the answer; the last canvas may reach beyond it, as noise that nobody commits.
        canvas_length: slots per canvas, as trained.
        vocab_size: ids that noise is drawn from.
        soften: probabilities [n, V] -> expected input embeddings [n, hidden].
        stored: leading columns whose keys and values are already stored.
        exact_cache: False recomputes every column in every pass.
        top: likeliest tokens to report beside every committed one.
    Source: arXiv:2608.00146; transformers' `DiffusionGemmaGenerationMixin.generate`. There `logits_processor` run
        before the temperature, and what they leave is what is drawn from, measured and expected: so do top-k and top-p.
    """

    def __init__(
        self,
        canvas: Canvas,
        sampling: Sampling,
        *,
        end: int,
        canvas_length: int,
        vocab_size: int,
        soften: Callable[[Tensor], Tensor],
        cleaning: Cleaning,
        stop_ids: tuple[int, ...] = (),
        stored: int = 0,
        exact_cache: bool = True,
        top: int = 0,
    ) -> None:
        super().__init__(canvas, end=end, stop_ids=stop_ids)
        self.sampling = sampling
        self.canvas_length = canvas_length
        self.vocab_size = vocab_size
        self.soften = soften
        self.cleaning = cleaning
        self.stored = stored
        self.exact_cache = exact_cache
        self.top = top
        self.block = Span(len(canvas), len(canvas))

    def _begin(self) -> list[Event]:
        return self._open() + super()._begin()

    def _open(self) -> list[Event]:
        """The next canvas that is not all forced, full of noise."""
        events: list[Event] = []
        while self.block.end < self.end and (not self.block.end > self.block.start or self._wanted().numel() == 0):
            start = self.block.end
            self.block = Span(start, start + self.canvas_length)
            events.append(self.canvas.grow(min(self.block.end, self.end) - start))
        self.slots = torch.arange(self.block.start, self.block.end)
        self.step = 0
        self.history: list[Tensor] = []
        self.soft: Tensor | None = None
        self.noisy = self._pinned(self._noise(-1))
        return events

    def _wanted(self) -> Tensor:
        """[n] int64: slots of the canvas that passes decide."""
        return self.canvas.open_slots(self.block.start, self.block.end)

    def _noise(self, pass_index: int) -> Tensor:
        return renoise.noise(self.sampling.draws.uniform(self.slots, pass_index, "noise"), self.vocab_size)

    def _pinned(self, ids: Tensor) -> Tensor:
        """The same with the tokens that the caller forced."""
        own = slice(self.block.start, min(self.block.end, self.end))
        given = self.canvas.given[own]
        ids[: len(given)][given] = self.canvas.ids[own][given]
        return ids

    def plan(self) -> list[Window]:
        """The text that is not stored yet, causally, and the canvas behind it."""
        start = self.stored if self.exact_cache else 0
        behind = self.block.start - start
        window = Window(
            ids=torch.cat([self.canvas.ids[start : self.block.start], self.noisy]),
            start=start,
            visible=self.block.end,
            rows=torch.arange(behind, behind + self.canvas_length),
            attention="causal",
            adapted=behind,
            soft=self.soft,
            stores=self.exact_cache,
        )
        return self.count([window])

    def _processed(self, logits: Tensor) -> Tensor:
        """[L, V]: adjusted, filtered, and scaled by the temperature of the pass, in this order."""
        kept, how = self.sampling.filtered(self.sampling.adjust(logits)), self.cleaning
        return kept.div_(renoise.temperature(self.step, how.steps, how.t_min, how.t_max))  # the rows are ours to change

    def decide(self, rows: list[Tensor]) -> Tensor:
        """[3 + 2 K, 2 L]: ids that were drawn, their entropy, 1 where accepted; then the best ids and their
        probability. Below both, K = min(top, V) likeliest ids and their probabilities."""
        logits = self._processed(rows[0])
        slots = self.slots.to(logits.device, non_blocking=True)
        chances = logits.softmax(-1)  # once: at a vocabulary's width every further one costs as much as the network
        drawn = self.sampling.draws.chosen(chances, slots, self.passes - self.extra_passes)
        entropy, top = score.entropy(logits, chances), best(logits)
        accepted = select.entropy_bound(entropy, torch.ones_like(drawn, dtype=torch.bool), self.cleaning.entropy_bound)
        self.soft = self.soften(chances)
        wide = wide_dtype(logits.device)
        first = [part.to(wide) for part in (drawn, entropy, accepted)]
        second = [part.to(wide) for part in (top, chances.gather(-1, top[:, None])[:, 0], torch.ones_like(accepted))]
        decision = torch.cat([torch.stack(first), torch.stack(second)], 1)
        if not self.top:
            return decision
        likeliest = torch.cat([part.T.to(wide) for part in score.likeliest(logits, self.top)])  # [2 K, L]
        return torch.cat([decision, likeliest.repeat(1, 2)])

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        check(decision)
        drawn, top = decision.chunk(2, 1)
        if self.exact_cache:
            self.stored = self.block.start
        pass_index, number = self.passes, self.passes - self.extra_passes
        self.passes += 1
        self.step += 1
        ids, entropy = top[0].long(), drawn[1]
        how = self.cleaning
        done = self.step >= how.steps or renoise.settled(ids, self.history, entropy, how.stability, how.confidence)
        self.history = [*self.history, ids][-max(how.stability, 1) :]
        events: list[Event] = [*self._write(top, pass_index, last=done)]
        if done:
            return events + self._finish_canvas()
        self.noisy = self._pinned(torch.where(drawn[2] > 0, drawn[0].long(), self._noise(number)))
        return events

    def _write(self, top: Tensor, pass_index: int, *, last: bool) -> list[Decided]:
        """Commit the best tokens, or revise those of the pass before: what has changed, in the last pass all of them.

        Args:
            top: [3 + 2 K, canvas_length], the second half of a decision.
        """
        ids, start = top[0].long(), self.block.start
        slots, write = self._wanted(), self.canvas.commit
        if not slots.numel():
            slots, write = self.canvas.committed[start:].nonzero().squeeze(-1) + start, self.canvas.revise
            slots = slots if last else slots[self.canvas.ids[slots] != ids[slots - start]]
        if not slots.numel():
            return []
        own = slots - start
        event = replace(write(slots, ids[own], top[1, own], pass_index), provisional=True)
        return [replace(event, alternatives=alternatives(top[3:, own].float())) if self.top else event]

    def _finish_canvas(self) -> list[Event]:
        block, end = self.block, min(self.block.end, self.end)
        index = (block.start - self.canvas.answer_start) // self.canvas_length
        events: list[Event] = [BlockFinished(self.canvas.request, index, block.start, end, self.passes)]
        reason = self.ending()
        if reason is None:
            events += self._open()
            reason = self.ending()  # the caller may have forced the rest
        return events + self.finish(reason) if reason else events

    def uncached(self, window: Window) -> Window:
        """See `Decoder.uncached`."""
        return replace(
            window,
            ids=torch.cat([self.canvas.ids[: window.start], window.ids]),
            start=0,
            rows=window.rows + window.start,
            adapted=self.block.start,
            stores=False,
        )
