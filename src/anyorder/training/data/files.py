"""Files of a source: which ones, what is in them, and their hash on the way."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.errors import DataError
from anyorder.training.data.report import FileReport, SourceReport


@dataclass(frozen=True)
class Record:
    """A JSON object or a text, and where it stands, for messages."""

    where: str
    value: Any


def find(path: Path, extensions: Sequence[str]) -> list[Path]:
    """The file itself, or the files of a folder and its subfolders that end so, sorted; hidden ones are left out.

    Raises:
        DataError: there is nothing at `path`, or no such file in the folder.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DataError(f"no data at {path}: give a file or a folder")
    found = [file for file in _walk(path) if file.suffix.lower() in extensions]
    if not found:
        raise DataError(f"{path} holds no file ending in {_some(extensions)}")
    return found


def _walk(folder: Path) -> Iterator[Path]:
    """Files below a folder in the order of their names; hidden files and folders and symbolic links are left out."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if not name.startswith(".") and not path.is_symlink():
                yield path


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (" ..." if len(names) > 6 else "")


def json_lines(files: Sequence[Path], report: SourceReport) -> Iterator[Record]:
    """The JSON object of every line that is not blank.

    Raises:
        DataError: a line is no JSON object or not UTF-8, or a file holds no line; file and line are named.
    """
    for path in files:
        seen = report.records
        for number, line in enumerate(_lines(path, report), start=1):
            if line.strip():
                report.records += 1
                where = f"{path}, line {number}"
                yield Record(where, _object(where, line))
        if report.records == seen:
            raise DataError(f"{path} is empty; write one JSON object per line, or leave the file out")


def _lines(path: Path, report: SourceReport) -> Iterator[bytes]:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as handle:
            for line in handle:
                digest.update(line)
                size += len(line)
                report.read_bytes += len(line)
                yield line
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    report.files.append(FileReport(str(path), size, digest.hexdigest()))


def _object(where: str, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise DataError(f"{where}: no valid JSON ({error}); mend or remove the line") from error
    if not isinstance(value, dict):
        raise DataError(f"{where}: needs a JSON object, got {type(value).__name__}")
    return value


def texts(files: Sequence[Path], report: SourceReport, separator: str | None = None) -> Iterator[Record]:
    """The documents of text files, blank ones left out.

    Raises:
        DataError: a file is not UTF-8, or holds nothing but blanks.
    """
    for path in files:
        text = _text(path, read(path, report))
        parts = [text] if separator is None else text.split(separator)
        if not text.strip():
            raise DataError(f"{path} is empty; leave the file out")
        for part in parts:
            report.records += 1
            if part.strip():
                yield Record(str(path), part)
            else:
                report.drop("blank")


def code(files: Sequence[Path], report: SourceReport, max_bytes: int) -> Iterator[Record]:
    """Source files, one document each; what is no source code after all is counted as dropped."""
    for path in files:
        report.records += 1
        size = path.stat().st_size
        if size > max_bytes:
            report.read_bytes += size
            report.drop(f"larger than {max_bytes:,} bytes")
            continue
        data = read(path, report)
        text = None if b"\0" in data else _decoded(data)
        if text is None:
            report.drop("not UTF-8 text")
        elif not text.strip():
            report.drop("blank")
        else:
            yield Record(str(path), text)


def read(path: Path, report: SourceReport) -> bytes:
    """A whole file, booked in the report.

    Raises:
        DataError: it cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    report.read_bytes += len(data)
    report.files.append(FileReport(str(path), len(data), hashlib.sha256(data).hexdigest()))
    return data


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8; save it as UTF-8"
        ) from error


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
