"""The benchmark of quality against passes runs, counts and draws, and its results are committed for all exams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.benchmarks.test_benchmarks_run import ROOT, run

from anyorder.exam import EXAMS


def test_it_writes_a_table_a_file_and_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "pictures" / "cliff.png"
    flags = ("--exams", "records/total", "records/any", "--count", "3", "--picture", str(picture))
    text, results = run("checkable_cliff", *flags, out=tmp_path)
    assert "one pass with exact probabilities: 3e-09" in text
    total, every = results["results"]
    assert [row["setting"] for row in every["rows"]] == [1, 2, 4, 8, 16, None, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99]
    assert [row["passes"] for row in every["rows"][:6]] == [1, 2, 4, 8, 16, 31]
    assert all(row["low"] <= row["share"] <= row["high"] for result in (total, every) for row in result["rows"])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_committed_results_are_of_all_exams() -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "checkable_cliff.json").read_text())
    assert {result["exam"] for result in results["results"]} == set(EXAMS)
