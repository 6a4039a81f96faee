"""The fold of one request's events into an answer whose text only ever grows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from anyorder.channels.budget import Allowance
from anyorder.channels.marked import plain
from anyorder.channels.parser import Channels
from anyorder.channels.parts import Content, Part, Spoken
from anyorder.events import Committed, Event, Finished, Remasked, Revised, Started
from anyorder.generation import Fold
from anyorder.server.streams.text import Decode, Detokenizer, StopFilter
from anyorder.server.streams.tokens import Alternative, Spell, Token, logarithm, offset_in


@dataclass(frozen=True, slots=True)
class Delta:
    """What an event adds to the answer."""

    text: str = ""
    tokens: tuple[Token, ...] = ()
    """Those whose text has now been handed out."""
    finish_reason: str | None = None
    parts: tuple[Part, ...] = ()
    """What the text says, by channel; it may lag behind the text where that could still become something else."""

    def pieces(self) -> list[Delta]:
        """The same with one part in each, for surfaces that send channels one by one."""
        if len(self.parts) < 2:
            return [self]
        last = len(self.parts) - 1
        return [
            Delta("", () if n else self.tokens, self.finish_reason if n == last else None, (part,))
            for n, part in enumerate(self.parts)
        ]


@dataclass
class Answer:
    """The text of the leading decided slots, in the order of the canvas, up to a stop token or a stop string.

    A slot is handed out when it and every slot before it is decided for good; what was handed out never changes.

    Args:
        decode: ids to text.
        stop_ids: tokens that end the answer.
        stops: texts that end the answer; they are not part of it.
        hole: the answer is what fills the prompt's hole, not what follows the prompt.
        byte_ids: see `Detokenizer`.
        with_tokens: keep the delivered tokens, for log-probabilities: of the pass that committed them, 0 where the
            caller forced one.
        spell: see `Spell`; None: `decode` of the one id.
        channels: reads reasoning and calls from the text; None: all of it is content.
        allowance: bounds the reasoning that `channels` reads.
    """

    decode: Decode
    stop_ids: tuple[int, ...]
    stops: Sequence[str] = ()
    hole: bool = False
    byte_ids: Collection[int] = ()
    with_tokens: bool = False
    spell: Spell | None = None
    channels: Channels | None = None
    allowance: Allowance | None = None
    text: str = ""
    """Handed out so far, the markers of channels included."""
    parts: list[Part] = field(default_factory=list[Part])
    """What it says, by channel."""
    finish_reason: str | None = None
    delivered: int = 0
    """Tokens of the text."""
    passes: int = 0
    onward: list[int] | None = None
    """The prompt of the request that this answer goes on as: its reasoning was closed for it. Nothing is handed out
    until that one begins, with a Started of the same slots."""
    dropped: int = 0
    """Slots that were committed behind the end of the reasoning, and are decided anew."""
    given: int = 0
    """Tokens that closed the reasoning; no pass has decided them."""
    fold: Fold = field(init=False)

    def __post_init__(self) -> None:
        self.fold = Fold(self.decode, self.stop_ids, lambda: 0.0, 0.0)
        self._detokenizer = Detokenizer(self.decode, self.byte_ids)
        self._filter = StopFilter(self.stops)
        self._next: int | None = None  # the first slot that is not part of the text yet
        self._groups: list[tuple[int, list[int]]] = []  # (characters, slots) handed to the filter and not delivered
        self._pending: list[int] = []  # slots whose text is not complete
        self._offset = 0  # characters of delivered groups
        self._handed: list[tuple[int, list[int]]] = []  # (characters, slots) of delivered groups

    @property
    def stopped(self) -> bool:
        """True if a stop string, or the only call that was wanted, ended it: what is still decoded is not wanted."""
        return self._filter.hit is not None or (self.channels is not None and self.channels.ended is not None)

    @property
    def spoken(self) -> Spoken:
        """The parts so far, added up."""
        spoken = Spoken()
        spoken.add(self.parts)
        return spoken

    @property
    def reasoning_tokens(self) -> int:
        """Delivered tokens of the reasoning channel, with its markers."""
        spans = self.channels.spans if self.channels else ()
        return sum(self._tokens_before(end) - self._tokens_before(start) for start, end in spans)

    @property
    def revised(self) -> int:
        """Decided slots that were decided anew, or taken back."""
        return self.fold.revised

    @property
    def wasted(self) -> int:
        """Committed slots that are not part of the answer and no stop token that ended it."""
        ends = not self.stopped and not self.hole and self.fold.answer_end() < len(self.fold.ids)
        return max(self.committed - (self.delivered - self.given) - int(ends), 0)

    @property
    def committed(self) -> int:
        """Slots that passes have decided."""
        return len(self.fold.commits) + self.dropped

    def add(self, event: Event) -> Delta:
        """Take one event; the answer takes none behind its finish reason."""
        if isinstance(event, Committed | Revised | Remasked):
            self.passes = event.pass_index + 1
        characters, count = len(self.text), len(self.parts)
        self.fold.add(event)
        if self.onward is not None and isinstance(event, Started):
            closing, self.onward = len(self.onward) - self._first(), None
            self._say(self._filter.push(self._grown(self._leading(closing))))
        self._reason()
        text = self._filter.push(self._grown(self._leading()))
        if isinstance(event, Finished):
            self.passes = event.passes
        if isinstance(event, Finished) and self.onward is None:
            if not self.stopped:
                text += self._filter.push(self._completed())
            self.finish_reason = self.finish_reason or event.reason
        if self.stopped:
            self.finish_reason = "stop"
        elif self.finish_reason:
            text += self._filter.flush()
        self._say(text)
        return Delta(self.text[characters:], self._delivered(), self.finish_reason, tuple(self.parts[count:]))

    def _reason(self) -> None:
        """Hand out what may be reasoning as far as its budget goes, and close the channel where it ends."""
        while self.allowance is not None and self.onward is None and not self.stopped:
            room = self.allowance.room(whole=not self._pending)
            if room == 0:
                self._close(self.allowance)
                return
            slots = [] if room is None else self._leading(room)
            if not slots:
                return
            self.allowance.used += len(slots)
            self._say(self._filter.push(self._grown(slots)))

    def _close(self, allowance: Allowance) -> None:
        """Go on behind closed reasoning; an answer without room for that ends here."""
        fold, end, closing = self.fold, self._first(), allowance.closing()
        if end - fold.answer_start + len(closing) >= allowance.budget.slots:
            self.finish_reason = "length"
            return
        self.onward = [*fold.ids[:end], *closing]
        self.given += len(closing)
        late = [slot for slot in fold.commits if slot >= end]
        self.dropped += len(late)
        for slot in late:
            del fold.commits[slot]
            fold.alternatives.pop(slot, None)
        fold.provisional.clear()

    def _say(self, text: str) -> None:
        text, parts = self._read(text)
        self.text += plain(text)
        self.parts += parts

    def _read(self, text: str) -> tuple[str, list[Part]]:
        """The text that belongs to the answer, and its parts; finished by the call behind which no more is wanted."""
        channels = self.channels
        if channels is None:
            return text, [Content(text)] if text else []
        parts = channels.push(text)
        if channels.ended is not None:
            text, self.finish_reason = text[: channels.ended - len(self.text)], "stop"
        elif self.finish_reason:
            parts += channels.flush()
        if self.finish_reason == "stop" and channels.num_calls:
            self.finish_reason = "tool_calls"
        return text, parts

    def _grown(self, slots: list[int]) -> str:
        """The text that the newly leading slots complete."""
        if not slots:
            return ""
        self._pending += slots
        before = self._detokenizer.read
        return self._grouped(self._detokenizer.push([self.fold.ids[slot] for slot in slots]), before)

    def _completed(self) -> str:
        before = self._detokenizer.read
        return self._grouped(self._detokenizer.flush(), before)

    def _grouped(self, text: str, before: int) -> str:
        taken = self._detokenizer.read - before
        if taken:
            self._groups.append((len(text), self._pending[:taken]))
            del self._pending[:taken]
        return text

    def _first(self) -> int:
        """The first slot that is not part of the text yet."""
        if self._next is None:
            self._next = self.fold.holes[0] if self.hole else self.fold.answer_start
        return self._next

    def _leading(self, most: int | None = None) -> list[int]:
        """Slots that every slot before them is decided of, and that were not leading so far; `most` of them."""
        fold, begin = self.fold, self._first()
        if self.onward is not None or self.finish_reason:
            return []
        end = fold.holes[-1] + 1 if self.hole else fold.answer_end()
        end = end if most is None else min(end, begin + most)
        slot = begin
        while slot < end and slot not in fold.open and slot not in fold.provisional:
            slot += 1
        self._next = slot
        return list(range(begin, slot))

    def _delivered(self) -> tuple[Token, ...]:
        """Count, and list if wanted, the tokens whose text has been handed out."""
        tokens: list[Token] = []
        while self._groups and (self._groups[0][0] + self._offset <= len(self.text) or self.finish_reason):
            size, group = self._groups.pop(0)
            covered = group[: self._covered(group, size, len(self.text) - self._offset)]
            self.delivered += len(covered)
            self._handed.append((size, covered))
            if self.with_tokens:
                tokens += [self._token(covered[: n + 1], size) for n in range(len(covered))]
            self._offset += size
        return tuple(tokens)

    def _covered(self, group: list[int], size: int, wanted: int) -> int:
        """How many tokens of a group of `size` characters its first `wanted` characters need."""
        if wanted >= size:
            return len(group)
        if wanted <= 0:
            return 0
        ids = [self.fold.ids[slot] for slot in group]
        return next((n for n in range(1, len(ids)) if len(self.decode(ids[:n])) >= wanted), len(ids))

    def _tokens_before(self, length: int) -> int:
        """Delivered tokens that the first `length` characters need."""
        count = offset = 0
        for size, slots in self._handed:
            if offset + size > length:
                return count + self._covered(slots, size, length - offset)
            count, offset = count + len(slots), offset + size
        return count

    def _token(self, slots: list[int], size: int) -> Token:
        """The last of some slots that lead a group of `size` characters."""
        before = [self.fold.ids[slot] for slot in slots[:-1]]
        return self._decided(slots[-1], self._offset + offset_in(self.decode, before, size))

    def _decided(self, slot: int, offset: int) -> Token:
        fold = self.fold
        probability = fold.commits[slot][1] if slot in fold.commits else 1.0
        best = (Alternative(self._spelt(id), logarithm(chance)) for id, chance in fold.alternatives.get(slot, ()))
        return Token(fold.ids[slot], self._spelt(fold.ids[slot]), logarithm(probability), offset, tuple(best))

    def _spelt(self, id: int) -> str:
        return self.spell(id) if self.spell else plain(self.decode([id]))

    @property
    def stop_token(self) -> Token | None:
        """The stop token that ended the answer, which is not part of its text."""
        end = self.fold.answer_end()
        if self.stopped or self.hole or end == len(self.fold.ids):
            return None
        return self._decided(end, len(self.text))
