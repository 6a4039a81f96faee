"""What a report has measured so far, written whole after every task, so that a stopped one loses next to nothing."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from anyorder.errors import DataError

FORMAT = 1
SHARE = 0.05
"""Of the time may go into writing; a large file is written less often than after every record."""

Record = dict[str, Any]
"""One measurement, JSON-able."""


class Journal:
    """The records of one report.

    Args:
        path: of the JSON file; read if it is there.
        settings: what the figures depend on; a report begun with others is refused.
        fresh: forget what is there.
    Raises:
        DataError: the file is no report, or was begun with other settings.
    """

    def __init__(self, path: Path, settings: dict[str, Any], *, fresh: bool = False) -> None:
        self.path = path
        self.settings: dict[str, Any] = _as_read_back(settings)
        self.records: dict[str, dict[str, Record]] = {} if fresh or not path.exists() else self._read()
        self.summary: dict[str, Any] = {}
        self._save_at = 0.0  # on the clock of the process

    def _read(self) -> dict[str, dict[str, Record]]:
        try:
            found = json.loads(self.path.read_text("utf-8"))
            begun, records, version = found["settings"], found["records"], found["format"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{self.path} is no report of anyorder; name another --out, or overwrite it with --fresh"
            ) from error
        if version != FORMAT:
            raise DataError(f"{self.path} has the format {version}, this version writes {FORMAT}; use --fresh")
        differing = [key for key in {*begun, *self.settings} if begun.get(key) != self.settings.get(key)]
        if differing:
            what = "; ".join(f"{k} was {begun.get(k)!r}, now {self.settings.get(k)!r}" for k in sorted(differing))
            raise DataError(f"{self.path} was begun with other settings ({what}); use those, --fresh or another --out")
        return records

    def add(self, section: str, prompt: str, record: Record) -> None:
        """Keep one record, on the disk too unless that was written a moment ago; `save` makes sure."""
        self.records.setdefault(section, {})[prompt] = _as_read_back(record)
        began = time.monotonic()
        if began >= self._save_at:
            self.save()
            done = time.monotonic()
            self._save_at = done + (done - began) / SHARE

    def save(self) -> None:
        """Write everything beside the file and put it in its place, so that it is never half there."""
        content = {"format": FORMAT, "settings": self.settings, "summary": self.summary, "records": self.records}
        beside = self.path.with_name(self.path.name + ".part")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False, indent=1)
        os.replace(beside, self.path)


def _as_read_back(value: Any) -> Any:
    """Lists for tuples, so that a report that was gone on with compares like with like."""
    return json.loads(json.dumps(value))
