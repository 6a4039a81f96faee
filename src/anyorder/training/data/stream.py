"""Rows of a data set that is read on for as long as training goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from anyorder.errors import DataError, ParameterError
from anyorder.training.batch import Batch
from anyorder.training.data.documents import checked
from anyorder.training.data.encode import SHORTEST, Example, Vocabulary, field_of
from anyorder.training.data.hub import records
from anyorder.training.data.report import SourceReport
from anyorder.training.data.rows import as_batch
from anyorder.training.data.spec import StreamData

Part = tuple[np.ndarray, np.ndarray]


class StreamedRows:
    """Rows of a streamed data set, in its order, documents one behind the other and cut where a row ends.

    Rows can only be asked for in rising order. The state is the next row, how many records were read, and the documents
    that no row has taken yet; a run goes on from there without tokenizing again what it has seen.

    Args:
        source: one without limit; when it ends it begins again.
        vocabulary: of the model.
        length: of a row, in tokens.
    """

    def __init__(self, source: StreamData, vocabulary: Vocabulary, *, length: int) -> None:
        self.length = length
        self.source = source
        self.vocabulary = vocabulary
        self.report = SourceReport(source.kind, source.path)
        self._next_row = 0
        self._records = 0
        self._left: list[Example] = []
        self._stream = self._examples()

    def batch(self, start: int, count: int) -> Batch:
        """Rows number start .. start + count - 1, on the CPU.

        Raises:
            ParameterError: `start` lies before what was taken last.
            DataError: a record is damaged, or the data set holds nothing to learn from.
        """
        if start < self._next_row:
            raise ParameterError(f"a stream cannot go back to row {start}; the next one is {self._next_row}")
        while self._next_row < start:
            self._take()
        return as_batch([self._take() for _ in range(count)], self.length)

    def state_dict(self) -> dict[str, Any]:
        """JSON-able: where the stream is."""
        left = [{"ids": example.ids, "trainable": example.trainable} for example in self._left]
        return {"row": self._next_row, "records": self._records, "left": left}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to where `state_dict` was."""
        self._next_row, self._records = state["row"], state["records"]
        self._left = [Example(**fields) for fields in state["left"]]
        self._stream = self._examples()

    def _take(self) -> list[Part]:
        parts: list[Part] = []
        free = self.length
        while free >= SHORTEST:
            example = self._left.pop() if self._left else next(self._stream)
            here, rest = example.cut(free)
            if rest is not None:
                self._left.append(rest)
            if len(here.ids) >= SHORTEST and any(here.trainable):
                parts.append((np.array(here.ids), np.array(here.trainable)))
                free -= len(here.ids)
        self._next_row += 1
        return parts

    def _examples(self) -> Iterator[Example]:
        """Documents without end, from record number `_records` on."""
        encode = field_of(self.source.field)
        while True:
            start, before = self._records, self.report.trainable
            for record in records(self.source, self.report, start=start):
                self._records += 1
                found = list(
                    checked(encode(record, self.vocabulary, self.report), record, self.vocabulary, self.report)
                )
                # a record may give several documents; those behind the first wait here, as the state counts records
                self._left += found[:0:-1]
                yield from found[:1]
            if not start and self.report.trainable == before:
                raise DataError(f"{self.source.path}: no token to learn from in {self.report.records} records")
            self._records = 0
