"""`anyorder reference`: every case in the table, and an exit code that a script can trust."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

from anyorder.reference import CaseResult

RESULTS = [
    CaseResult("llada", "logits", "full", True, "max 1e-5"),
    CaseResult("llada", "decode", "steps_16_of_a_rather_long_name", False, "pass 3: slot 7 differs", "a quirk"),
]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("anyorder.reference.run", lambda _folder: RESULTS)
    return tmp_path


def test_every_case_is_in_the_table_and_a_failure_is_code_1(cli: Cli, folder: Path) -> None:
    result = cli("reference", str(folder))
    assert result.code == 1
    assert result.err == "1 passed, 1 failed\n"
    for text in ("full", "pass", "max 1e-5", "steps_16_of_a_rather_long_name", "FAIL", "slot 7", "quirk"):
        assert text in result.out
    assert max(map(len, result.out.splitlines())) <= 80


def test_success_is_code_0(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyorder.reference.run", lambda _folder: RESULTS[:1])
    assert cli("reference", str(folder)).code == 0


def test_only_failures_or_json(cli: Cli, folder: Path) -> None:
    assert "max 1e-5" not in cli("reference", str(folder), "--failed").out
    cases = json.loads(cli("reference", str(folder), "--json").out)
    assert [case["passed"] for case in cases] == [True, False]


def test_no_folder_is_one_line(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert "is no folder" in cli("reference", str(file)).err
    assert "is not there" in cli("reference", str(tmp_path / "none")).err
    assert cli("reference", str(tmp_path)).code == 1  # a folder without recordings
    assert cli("reference").code == 2
