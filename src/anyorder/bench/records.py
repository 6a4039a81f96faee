"""One line per request, written when it ends, so that a run that is stopped loses only what was on its way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from anyorder.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Record:
    """How one request went. Times in seconds; those of the answer count from `due_s`."""

    load: str
    """Under which load it was sent."""
    index: int
    session: int
    """Clocks of different sessions of a run begin anew."""
    due_s: float
    """When it was to be sent: in an open loop its scheduled arrival, however late the sender was."""
    sent_s: float
    """When it was sent."""
    first_s: float | None = None
    """Until its first text; None if there was none."""
    last_s: float = 0.0
    """Until its end, whatever it was."""
    gaps_s: Sequence[float] = ()
    """Between the pieces of its text."""
    pieces: Sequence[str] = ()
    """Of its text, one for each time; "" where the piece was reasoning. Kept by `bench latency` only."""
    snapshots: bool = False
    """Each piece is the whole answer as it stood, not what was added to it."""
    error: str | None = None
    """Kind of failure: see `bench.client`; None: answered."""
    detail: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    tokens: int | None = None
    """Of the answer, as the server counts them; None if it does not say."""
    tokens_per_forward: float | None = None
    passes: int | None = None
    positions: int | None = None
    unused_share: float | None = None


class RecordFile:
    """Records in a JSONL file behind a line with the settings of the run; None: in memory only.

    Args:
        settings: what the figures depend on, JSON-able; a file begun with others is refused.
        fresh: forget what is there.
    Raises:
        DataError: the file is none of ours, or was begun with other settings.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any], *, fresh: bool = False) -> None:
        self.path = path
        self.records: list[Record] = []
        head = json.dumps({"settings": settings}, sort_keys=True)
        begun = path is not None and path.exists() and not fresh and path.stat().st_size > 0
        if begun:
            assert path is not None
            self._read(path, head)
        self.session = max((record.session for record in self.records), default=-1) + 1
        self._file: TextIO | None = None
        if path is not None:
            self._file = path.open("a" if begun else "w", encoding="utf-8")
            if not begun:
                self._write(head)

    def _read(self, path: Path, head: str) -> None:
        begun, *lines = path.read_text("utf-8").splitlines()
        if begun != head:
            raise DataError(
                f"{path} was begun with other settings, or is no record of a benchmark; use the same flags, another "
                "file, or --fresh"
            )
        whole = [line for line in lines if line.endswith("}")]
        try:
            self.records = [Record(**json.loads(line)) for line in whole]
        except (ValueError, TypeError) as error:
            raise DataError(f"{path} holds a line that is no record: {error}") from None
        if len(whole) < len(lines):  # the machine went down within a line
            path.write_text("".join(line + "\n" for line in [begun, *whole]), encoding="utf-8")

    def add(self, record: Record) -> None:
        """Keep one record."""
        self.records.append(record)
        self._write(json.dumps(asdict(record)))

    def _write(self, line: str) -> None:
        if self._file is not None:
            self._file.write(line + "\n")
            self._file.flush()

    def of(self, load: str) -> list[Record]:
        """The records of one load."""
        return [record for record in self.records if record.load == load]

    def close(self) -> None:
        """Nothing more comes."""
        if self._file is not None:
            self._file.close()
