"""Documents into rows of one length: a row is a list of spans of tokens."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from anyorder.training.data.encode import SHORTEST

Packing = Literal["best-fit", "in-order"]
"""How documents come into rows. "best-fit": a document that fits into a row stays whole, in the fullest row that has
room; "in-order": one behind the other, cut where a row ends, so that rows are full."""


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens of one document, in one row: places in `Documents.ids`."""

    start: int
    stop: int


@dataclass
class PackingReport:
    """What packing did."""

    rows: int = 0
    length: int = 0
    """Tokens of a row."""
    tokens: int = 0
    """In all rows, padding left out."""
    split: int = 0
    """Documents that were cut; the parts do not see each other."""
    dropped: int = 0
    """Parts of documents without anything to learn from, such as the head of a long prompt."""
    dropped_tokens: int = 0

    @property
    def padding(self) -> float:
        """Share of the rows."""
        size = self.rows * self.length
        return (size - self.tokens) / size if size else 0.0


@dataclass
class Packer:
    """Packs documents of known trainable tokens into rows of `length`."""

    length: int
    trainable: Sequence[int]
    """1 or 0 for every token of all documents."""
    report: PackingReport = field(default_factory=PackingReport)

    def pack(self, ends: Sequence[int], packing: Packing, *, first: int = 0) -> list[list[Span]]:
        """Rows of the documents from number `first` on; document n is tokens ends[n] to ends[n + 1]."""
        documents = (Span(ends[n], ends[n + 1]) for n in range(first, len(ends) - 1))
        rows = self._best_fit(documents) if packing == "best-fit" else list(self._in_order(documents))
        self.report.length = self.length
        self.report.rows += len(rows)
        self.report.tokens += sum(span.stop - span.start for row in rows for span in row)
        return rows

    def _best_fit(self, documents: Iterable[Span]) -> list[list[Span]]:
        rows: list[list[Span]] = []
        room: list[tuple[int, int]] = []  # (free tokens, row), sorted
        for document in documents:
            for part in self._parts(document):
                size = part.stop - part.start
                at = bisect_left(room, (size, -1))
                free, row = room.pop(at) if at < len(room) else (self.length, len(rows))
                if row == len(rows):
                    rows.append([])
                rows[row].append(part)
                if free - size >= SHORTEST:
                    insort(room, (free - size, row))
        return rows

    def _parts(self, document: Span) -> list[Span]:
        """The document cut at the length of a row, without what is not worth a place."""
        self.report.split += document.stop - document.start > self.length
        starts = range(document.start, document.stop, self.length)
        parts = [Span(start, min(start + self.length, document.stop)) for start in starts]
        return [part for part in parts if self._is_worth(part)]

    def _in_order(self, documents: Iterable[Span]) -> Iterator[list[Span]]:
        row: list[Span] = []
        free = self.length
        for document in documents:
            self.report.split += document.stop - document.start > free
            start = document.start
            while start < document.stop:
                part = Span(start, min(start + free, document.stop))
                start = part.stop
                if self._is_worth(part):
                    row.append(part)
                    free -= part.stop - part.start
                if free < SHORTEST:
                    yield row
                    row, free = [], self.length
        if row:
            yield row

    def _is_worth(self, part: Span) -> bool:
        """False, and counted, if there is nothing to learn in it."""
        if part.stop - part.start >= SHORTEST and any(self.trainable[part.start : part.stop]):
            return True
        self.report.dropped += 1
        self.report.dropped_tokens += part.stop - part.start
        return False
