from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anyorder.errors import TrainingError
from anyorder.training.log import Log, read


def written(path: Path, *steps: int) -> Path:
    log = Log(path, 0)
    for step in steps:
        log.add({"step": step, "loss": step / 2})
    return path


def test_a_run_that_goes_on_cuts_its_log_back(tmp_path: Path) -> None:
    path = written(tmp_path / "run" / "log.jsonl", 1, 2, 3, 4)
    log = Log(path, 2)
    log.add({"step": 3, "loss": 9.0})
    assert read(path) == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 1.0}, {"step": 3, "loss": 9.0}]


def test_a_half_written_line_ends_it(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl", 1, 2)
    path.write_text(path.read_text()[:-4])
    assert [record["step"] for record in read(path)] == [1]
    Log(path, 2).add({"step": 2})
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2]


def test_another_process_does_not_write(tmp_path: Path) -> None:
    Log(tmp_path / "log.jsonl", 0, writes=False).add({"step": 1})
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_names_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path / "log.jsonl", 0)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(TrainingError, match=r"step 7: .*log.jsonl cannot be written: .*No space left"):
        log.add({"step": 7})


def test_a_log_that_cannot_be_begun_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file in the place of the folder")
    with pytest.raises(TrainingError, match=r"log.jsonl cannot be written: .*nothing was trained yet"):
        Log(tmp_path / "run" / "log.jsonl", 0)
