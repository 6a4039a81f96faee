"""From the sources of a recipe to rows, with a manifest of what they were made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anyorder.errors import DataError, ParameterError
from anyorder.training.data.documents import Documents, read_source
from anyorder.training.data.encode import Vocabulary
from anyorder.training.data.packing import Packer, Packing, PackingReport
from anyorder.training.data.report import SourceReport, Watch
from anyorder.training.data.rows import PackedRows, Share
from anyorder.training.data.spec import Data, StreamData, TasksData
from anyorder.training.data.stream import StreamedRows
from anyorder.training.data.tasks import TaskRows, check_vocabulary

MANIFEST = "data.json"


@dataclass(frozen=True)
class Prepared:
    """Rows, and what they were made of."""

    rows: PackedRows | StreamedRows | TaskRows
    sources: list[SourceReport]
    packing: PackingReport | None
    """None for endless rows, which are packed on the way."""

    def manifest(self) -> dict[str, Any]:
        """JSON-able: files with their hashes, counts, packing. Equal manifests mean equal rows."""
        sources = [_described(source) for source in self.sources]
        packing = None if self.packing is None else {**asdict(self.packing), "padding": self.packing.padding}
        return {"sources": sources, "packing": packing}


def _described(source: SourceReport) -> dict[str, Any]:
    """JSON-able; `asdict` makes something else of a Counter in Python 3.11."""
    counts = {name: getattr(source, name) for name in ("kind", "path", "records", "documents", "tokens", "trainable")}
    files = [asdict(file) for file in source.files]
    return {**counts, "files": files, "dropped": dict(source.dropped), "ignored": dict(source.ignored)}


def prepare(
    sources: Sequence[Data],
    vocabulary: Vocabulary,
    *,
    length: int,
    packing: Packing = "best-fit",
    seed: int = 0,
    watch: Watch | None = None,
) -> Prepared:
    """Read and pack everything; an endless stream is only opened.

    Args:
        length: of a row, in tokens.
        seed: of the order of the rows.
        watch: called after every document.
    Raises:
        DataError, ModelError: see `read_source`.
        ParameterError: an endless stream stands beside other sources, or is to be packed in another order than its own.
    """
    if any(source.endless for source in sources):
        return _endless(sources, vocabulary, length, packing, seed)
    documents = Documents()
    reports: list[SourceReport] = []
    firsts: list[int] = []
    for source in sources:
        assert not isinstance(source, TasksData)  # endless
        firsts.append(len(documents))
        reports.append(read_source(source, vocabulary, documents, watch))
    return _packed(sources, documents, reports, firsts, length, packing, seed)


def _packed(
    sources: Sequence[Data],
    documents: Documents,
    reports: list[SourceReport],
    firsts: list[int],
    length: int,
    packing: Packing,
    seed: int,
) -> Prepared:
    packer = Packer(length, documents.trainable)
    ranges = zip(firsts, [*firsts[1:], len(documents)], sources, strict=True)
    shares = [
        Share(packer.pack(documents.ends[first : last + 1], packing), source.weight) for first, last, source in ranges
    ]
    return Prepared(PackedRows(documents, shares, length=length, seed=seed), reports, packer.report)


def _endless(sources: Sequence[Data], vocabulary: Vocabulary, length: int, packing: Packing, seed: int) -> Prepared:
    first = sources[0]
    if len(sources) > 1 or first.weight != 1:
        raise ParameterError("a stream without limit must be the only data, with weight 1; give it a limit to mix it")
    if isinstance(first, TasksData):
        return _tasks(first, vocabulary, length, packing, seed)
    assert isinstance(first, StreamData)  # no other kind is endless
    if packing != "in-order":
        raise ParameterError(
            f"a stream without limit can only be packed 'in-order', got {packing!r}; give it a limit", param="packing"
        )
    rows = StreamedRows(first, vocabulary, length=length)
    return Prepared(rows, [rows.report], None)


def _tasks(source: TasksData, vocabulary: Vocabulary, length: int, packing: Packing, seed: int) -> Prepared:
    if packing != "best-fit":
        raise ParameterError(
            f"documents of tasks stay whole: they are packed 'best-fit', got {packing!r}", param="packing"
        )
    check_vocabulary(vocabulary)
    rows = TaskRows({**source.shares}, alone=source.alone, asked=source.asked, length=length, seed=seed)
    return Prepared(rows, [SourceReport(source.kind, source.path)], None)


def write_manifest(manifest: dict[str, Any], folder: Path) -> None:
    """Put data.json into the folder of a run."""
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")


def check_manifest(manifest: dict[str, Any], folder: Path) -> None:
    """A run may only go on with the data that it began with.

    Raises:
        DataError: they differ; the first difference is named.
    """
    path = folder / MANIFEST
    if not path.exists():
        return
    before, now = json.loads(path.read_text("utf-8")), json.loads(json.dumps(manifest))
    if before != now:
        raise DataError(f"{_difference(before, now)} since {path} was written; begin anew with --fresh or restore it")


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    first, second = _hashes(before), _hashes(now)
    changed = sorted(path for path in first.keys() | second.keys() if first.get(path) != second.get(path))
    return f"{changed[0]} has changed" if changed else "what is made of the data has changed"


def _hashes(manifest: dict[str, Any]) -> dict[str, str]:
    return {file["path"]: file["sha256"] for source in manifest["sources"] for file in source["files"]}
