"""Records of a Hugging Face data set, streamed: nothing is downloaded before it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from anyorder.errors import DataError, MissingExtra
from anyorder.training.data.files import Record
from anyorder.training.data.report import SourceReport
from anyorder.training.data.spec import StreamData


def records(source: StreamData, report: SourceReport, *, start: int = 0) -> Iterator[Record]:
    """The records of a data set, up to its limit.

    Args:
        start: of how many of them to begin behind; they are not tokenized, but a data set may have to read them.
    Raises:
        MissingExtra: `datasets` is not installed.
        DataError: the data set cannot be opened or read on.
    """
    stream = _opened(source)
    if start:
        stream = stream.skip(start)
    stop = None if source.limit is None else max(source.limit - start, 0)
    iterator = islice(iter(stream), stop)
    number = start
    while True:
        number += 1
        try:
            value = next(iterator, None)
        except Exception as error:  # whatever its readers, decompressors and network raise
            raise DataError(f"{source.path}, record {number}: cannot be read ({error})") from error
        if value is None:
            return
        report.records += 1
        yield Record(f"{source.path}, record {number}", dict(value))


def _opened(source: StreamData) -> Any:
    try:
        import datasets  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise MissingExtra("data of kind 'stream' needs the data extra: pip install 'anyorder[data]'") from None
    named = {"data_files": list(source.files)} if source.files else {}
    try:
        return datasets.load_dataset(source.path, source.name, split=source.split, streaming=True, **named)
    except Exception as error:  # the errors of the hub, of the network, of readers: one family they are not
        raise DataError(f"cannot open the data set {source.path!r}: {error}") from error
