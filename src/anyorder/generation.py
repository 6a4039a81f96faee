"""What a request comes to: the fold of its events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from anyorder.events import (
    BlockFinished,
    Committed,
    Decided,
    Event,
    Finished,
    FinishReason,
    Opened,
    Remasked,
    Revised,
    Started,
)


@dataclass(frozen=True, kw_only=True)
class Stats:
    """Figures of one request. In a batch the times are the batch's: its passes are shared."""

    passes: int
    """Forward passes in which the request took part (NFE)."""
    tokens: int
    """Committed slots that count: filled holes and the answer, up to and including the stop token."""
    positions: int
    """Canvas positions computed over all passes."""
    blocks: int
    wasted: int
    """Slots committed behind the stop token."""
    revised: int
    """Committed slots whose token was replaced or taken back, each time."""
    time_to_first_s: float
    time_to_last_s: float
    model_s: float
    """Wall time inside the model's forward; on a GPU until its launch."""
    policy_s: float
    other_s: float
    cache: str
    exact: bool
    """True if the cache promises the logits of an uncached pass."""
    drift_max: float | None = None
    """Largest difference of a logit to that of an uncached pass; None if not measured."""
    drift_mean: float | None = None

    @property
    def tokens_per_forward(self) -> float:
        """TPF: what parallel commits buy."""
        return self.tokens / self.passes if self.passes else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens over the whole time, the prompt's pass included."""
        return self.tokens / self.time_to_last_s if self.time_to_last_s else 0.0

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, with the derived figures."""
        derived = {"tokens_per_forward": self.tokens_per_forward, "tokens_per_second": self.tokens_per_second}
        return {**asdict(self), **derived}


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the likeliest tokens of a slot."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class Slot:
    """One decided slot of the finished canvas."""

    slot: int
    id: int
    text: str
    commit_pass: int
    """The pass that decided it, from 0."""
    confidence: float
    """Probability of the id at that pass."""
    alternatives: tuple[Alternative, ...] = ()
    """The likeliest tokens of the slot at that pass, best first, as many as `top_logprobs` asked for."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-able: slot, id, text, pass, confidence, and the alternatives if there are any."""
        data = {
            "slot": self.slot,
            "id": self.id,
            "text": self.text,
            "pass": self.commit_pass,
            "confidence": self.confidence,
        }
        return {**data, "alternatives": [asdict(a) for a in self.alternatives]} if self.alternatives else data


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A finished answer."""

    text: str
    """The answer, without stop token, control tokens and `reasoning`; "" if the model has no tokenizer."""
    ids: tuple[int, ...]
    """Token ids of the answer, without the stop token."""
    prompt_ids: tuple[int, ...]
    """The prompt with its holes filled."""
    prompt_text: str
    finish_reason: FinishReason
    stats: Stats
    trace: tuple[Slot, ...]
    """Every slot that a pass decided, and nothing else, in the order of the canvas."""
    holes: tuple[str, ...] = ()
    """What was filled into the prompt's holes, in order."""
    reasoning: str | None = None
    """What a model that reasons said before its answer to a chat; None: nothing."""
    reasoning_tokens: int = 0
    """Leading `ids` that are reasoning, its markers included."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**asdict(self), "stats": self.stats.as_dict(), "trace": [slot.as_dict() for slot in self.trace]}


@dataclass(frozen=True, slots=True)
class Said:
    """The text of a finished answer by channel."""

    text: str
    """What is for the reader."""
    reasoning: str | None = None
    """None: nothing was said there."""
    reasoning_tokens: int = 0
    """Leading tokens that are reasoning, its markers included."""


@dataclass
class Fold:
    """Collects the events of one request.

    Args:
        decode: ids to text.
        stop_ids: tokens that end the answer.
        clock: seconds since some fixed point, read when an event is added.
        began: `clock()` at the start of the request.
        read: ids of the answer to its channels; None: all of its text is the answer.
    """

    decode: Callable[[Sequence[int]], str]
    stop_ids: tuple[int, ...]
    clock: Callable[[], float]
    began: float
    read: Callable[[Sequence[int]], Said] | None = None
    ids: list[int] = field(default_factory=list[int])
    open: set[int] = field(default_factory=set[int])
    commits: dict[int, tuple[int, float]] = field(default_factory=dict[int, tuple[int, float]])
    alternatives: dict[int, tuple[tuple[int, float], ...]] = field(
        default_factory=dict[int, tuple[tuple[int, float], ...]]
    )
    """Per slot its likeliest (id, probability), where they were asked for."""
    provisional: set[int] = field(default_factory=set[int])
    """Decided slots that later passes may still revise."""
    revised: int = 0
    answer_start: int = 0
    holes: list[int] = field(default_factory=list[int])
    blocks: int = 0
    first_at: float | None = None
    last_at: float | None = None
    finished: Finished | None = None

    def add(self, event: Event) -> None:
        """Take one event of the request."""
        match event:
            case Started():
                self.ids, self.open = list(event.ids), set(event.open)
                self.answer_start = event.answer_start
                self.holes = sorted(slot for slot in event.open if slot < event.answer_start)
            case Opened():
                self._opened(event)
            case Committed() | Revised():
                self._decided(event)
            case Remasked():
                self._remasked(event)
            case BlockFinished():
                self.blocks += 1
                self.provisional.difference_update(range(event.start, event.end))
            case Finished():
                self.finished = event
                self.provisional.clear()
                self.last_at = self.clock()
            case _:
                raise TypeError(f"unknown event {event!r}")

    def _opened(self, event: Opened) -> None:
        self.open.update(range(event.start, event.end))
        self.ids += [-1] * (event.end - event.start)
        for slot, token in event.given:
            self.ids[slot] = token
            self.open.discard(slot)

    def _decided(self, event: Decided) -> None:
        if self.first_at is None:
            self.first_at = self.clock()
        for slot, token, confidence in zip(event.slots, event.ids, event.confidence, strict=True):
            self.revised += isinstance(event, Revised) and token != self.ids[slot]
            self.ids[slot] = token
            self.open.discard(slot)
            self.commits[slot] = (event.pass_index, confidence)
        self.alternatives.update(zip(event.slots, event.alternatives, strict=False))
        if event.provisional:
            self.provisional.update(event.slots)

    def _remasked(self, event: Remasked) -> None:
        for slot in event.slots:
            del self.commits[slot]
        self.open.update(event.slots)
        self.provisional.difference_update(event.slots)
        self.revised += len(event.slots)

    def answer_end(self) -> int:
        """First column behind the answer: its first committed stop token, or the end of the canvas."""
        stops = [s for s in self.commits if s >= self.answer_start and self.ids[s] in self.stop_ids]
        return min(stops, default=len(self.ids))

    def figures(self, **times: Any) -> Stats:
        """The figures; `times` are the fields that only the engine knows."""
        finished, end = self.finished, self.answer_end()
        assert finished is not None, "the request is not finished"
        assert self.last_at is not None
        wasted = sum(slot > end for slot in self.commits)
        return Stats(
            passes=finished.passes,
            tokens=len(self.commits) - wasted,
            positions=finished.positions,
            blocks=self.blocks,
            wasted=wasted,
            revised=self.revised,
            time_to_first_s=(self.first_at if self.first_at is not None else self.last_at) - self.began,
            time_to_last_s=self.last_at - self.began,
            **times,
        )

    def result(self, stats: Stats) -> Generation:
        """The finished answer."""
        assert self.finished is not None, "the request is not finished"
        start, end = self.answer_start, self.answer_end()
        answer = tuple(self.ids[start:end])
        said = self.read(answer) if self.read is not None else Said(self.decode(answer))
        return Generation(
            text=said.text,
            ids=answer,
            prompt_ids=tuple(self.ids[:start]),
            prompt_text=self.decode(self.ids[:start]),
            finish_reason=self.finished.reason,
            stats=stats,
            trace=tuple(self._slot(slot) for slot in sorted(self.commits)),
            holes=tuple(self.decode(self.ids[a:b]) for a, b in _runs(self.holes)),
            reasoning=said.reasoning,
            reasoning_tokens=said.reasoning_tokens,
        )

    def _slot(self, slot: int) -> Slot:
        commit_pass, confidence = self.commits[slot]
        token = self.ids[slot]
        alternatives = (Alternative(id, self.decode([id]), chance) for id, chance in self.alternatives.get(slot, ()))
        return Slot(slot, token, self.decode([token]), commit_pass, confidence, tuple(alternatives))


def _runs(slots: Sequence[int]) -> list[tuple[int, int]]:
    """Maximal runs of consecutive slots, as (start, end)."""
    runs: list[tuple[int, int]] = []
    for slot in slots:
        if runs and runs[-1][1] == slot:
            runs[-1] = (runs[-1][0], slot + 1)
        else:
            runs.append((slot, slot + 1))
    return runs
