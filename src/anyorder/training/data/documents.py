"""All documents of the sources, one behind the other, in five bytes per token."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from anyorder.errors import DataError
from anyorder.training.data import files
from anyorder.training.data.encode import (
    SHORTEST,
    Encode,
    Example,
    Vocabulary,
    chat_of,
    field_of,
    ids_of,
    plain_field_of,
    text_of,
)
from anyorder.training.data.hub import records as hub_records
from anyorder.training.data.report import SourceReport, Watch
from anyorder.training.data.spec import ChatData, CodeData, IdsData, JsonlData, ReadData, StreamData, TextData


class Documents:
    """A growing store of token documents, numbered from 0."""

    def __init__(self) -> None:
        self.ids = array("i")
        self.trainable = bytearray()
        self.ends = array("q", [0])
        """Document n is ids[ends[n] : ends[n + 1]]."""

    def add(self, example: Example) -> None:
        self.ids.extend(example.ids)
        self.trainable.extend(example.trainable)
        self.ends.append(len(self.ids))

    def __len__(self) -> int:
        return len(self.ends) - 1


def read_source(
    source: ReadData, vocabulary: Vocabulary, documents: Documents, watch: Watch | None = None
) -> SourceReport:
    """Tokenise a source into `documents`.

    Raises:
        DataError: a record is damaged, an id is outside the vocabulary, or nothing of the source can be learned from.
        ModelError: the model has no tokenizer or chat template, and the source needs it.
    """
    report = SourceReport(source.kind, str(source.path))
    for example in examples(source, vocabulary, report):
        documents.add(example)
        if watch is not None:
            watch(report)
    if not report.trainable:
        raise DataError(f"{source.path}: no token to learn from in {report.records} records{_reasons(report)}")
    return report


def examples(source: ReadData, vocabulary: Vocabulary, report: SourceReport) -> Iterator[Example]:
    """The documents of a source that something can be learned from; the others are counted in the report."""
    records, encode = _reader(source, report)
    for record in records:
        yield from checked(encode(record, vocabulary, report), record, vocabulary, report)


def checked(
    found: Sequence[Example], record: files.Record, vocabulary: Vocabulary, report: SourceReport
) -> Iterator[Example]:
    """Those documents of a record that something can be learned from, counted.

    Raises:
        DataError: an id is outside the vocabulary.
    """
    for example in found:
        if outside := [token for token in example.ids if not 0 <= token < vocabulary.size]:
            raise DataError(
                f"{record.where}: token id {outside[0]} is outside the vocabulary of {vocabulary.size}; "
                "were these ids, or this tokenizer, made for another model?"
            )
        if len(example.ids) < SHORTEST:
            report.drop(f"shorter than {SHORTEST} tokens")
        elif not any(example.trainable):
            report.drop("no answer to learn from")
        else:
            report.documents += 1
            report.tokens += len(example.ids)
            report.trainable += sum(example.trainable)
            yield example


def _reader(source: ReadData, report: SourceReport) -> tuple[Iterator[files.Record], Encode]:
    match source:
        case ChatData():
            return files.json_lines(_sized(files.find(source.path, (".jsonl",)), report), report), chat_of
        case JsonlData():
            found = _sized(files.find(source.path, (".jsonl",)), report)
            return files.json_lines(found, report), plain_field_of(source.field)
        case IdsData():
            return files.json_lines(_sized(files.find(source.path, (".jsonl",)), report), report), ids_of
        case TextData():
            found = _sized(files.find(source.path, source.extensions), report)
            return files.texts(found, report, source.separator), text_of
        case CodeData():
            found = _sized(files.find(source.path, source.extensions), report)
            return files.code(found, report, source.max_bytes), text_of
        case StreamData():
            return hub_records(source, report), field_of(source.field)


def _sized(found: list[Path], report: SourceReport) -> list[Path]:
    report.total_bytes = sum(path.stat().st_size for path in found)
    return found


def _reasons(report: SourceReport) -> str:
    return "".join(f"; {count} left out: {reason}" for reason, count in report.dropped.most_common())
