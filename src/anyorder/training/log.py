"""log.jsonl: one JSON object per logged step, cut back when a run goes on from an earlier one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyorder.errors import TrainingError


class Log:
    """A run's log.

    Args:
        path: of the file; made if it is not there.
        step: the run goes on behind this step: later lines, and a half-written last one, are removed.
        writes: False: this process leaves the file to another one.
    Raises:
        TrainingError: it cannot be written, for example because the disk is full.
    """

    def __init__(self, path: Path, step: int, *, writes: bool = True) -> None:
        self.path = path
        self.writes = writes
        if not writes:
            return
        kept = [record for record in read(path) if record["step"] <= step]
        beside = path.with_name(path.name + ".part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text("".join(json.dumps(record) + "\n" for record in kept), "utf-8")
            os.replace(beside, path)
        except OSError as error:
            raise TrainingError(f"{path} cannot be written: {error}; nothing was trained yet") from error

    def add(self, record: Mapping[str, Any]) -> None:
        """Append one line.

        Raises:
            TrainingError: it cannot be written, for example because the disk is full.
        """
        if not self.writes:
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise TrainingError(f"step {record['step']}: {self.path} cannot be written: {error}") from error


def read(path: Path) -> list[dict[str, Any]]:
    """The records up to the first line that is none; [] if there is no file."""
    records: list[dict[str, Any]] = []
    if path.is_file():
        for line in path.read_text("utf-8", "replace").splitlines():
            try:
                record = json.loads(line)
                records.append({**record, "step": int(record["step"])})
            except (ValueError, KeyError, TypeError):
                break
    return records
