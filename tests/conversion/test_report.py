"""A report can be stopped and gone on with, and is refused where its figures would be mixed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from tests.conversion.subjects import QUESTIONS, base, converted, subject

from anyorder.conversion import decoding, measure
from anyorder.conversion.heldout import encode
from anyorder.conversion.measure import Subject, Task
from anyorder.conversion.report import report
from anyorder.conversion.run_folder import RunFolder
from anyorder.errors import DataError

TOTAL = 10  # two prompts, five sections


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer takes a second, so that equal reports are equal."""

    def timed(*args: object) -> decoding.Answer:
        return dataclasses.replace(decoding.answer(*args), seconds=1.0)  # type: ignore[arg-type]

    monkeypatch.setattr(measure, "answer", timed)


class Stopping:
    """Presses Ctrl-C before a task."""

    def __init__(self, before: int | None = None) -> None:
        self.before = before
        self.told: list[tuple[str, int, int]] = []

    def __call__(self, task: Task | None, done: int, total: int) -> None:
        self.told.append((f"{task.section.name} {task.prompt.id}" if task else "", done, total))
        if done == self.before:
            raise KeyboardInterrupt


def files(out: Path) -> tuple[bytes, bytes]:
    return (out / "report.html").read_bytes(), (out / "report.json").read_bytes()


def test_a_report_says_what_it_measures_and_is_whole_at_the_end(tmp_path: Path) -> None:
    told = Stopping()
    summary = report(subject(), tmp_path / "new" / "folder", progress=told)
    assert [done for _, done, _ in told.told] == list(range(TOTAL + 1))
    assert {total for *_, total in told.told} == {TOTAL}
    assert (told.told[0][0], told.told[-1][0]) == ("base one", "")
    content = json.loads((tmp_path / "new" / "folder" / "report.json").read_text("utf-8"))
    assert content["summary"] == json.loads(json.dumps(summary.as_dict()))
    assert list(content["records"]) == ["base", "perplexity", "masked", "lossless", "threshold"]


@pytest.mark.parametrize("stops", [[0], [1], [4, 7], [9]])
def test_a_stopped_report_goes_on_to_the_same_page(tmp_path: Path, stops: list[int]) -> None:
    report(subject(), tmp_path / "whole")
    for stop in stops:
        with pytest.raises(KeyboardInterrupt):
            report(subject(), tmp_path / "stopped", progress=Stopping(stop))
        page = (tmp_path / "stopped" / "report.html").read_text("utf-8")
        assert f"Unfinished: {stop * 10} %" in page  # what was measured is shown already
    told = Stopping()
    report(subject(), tmp_path / "stopped", progress=told)
    assert len(told.told) == TOTAL - stops[-1] + 1  # nothing is measured twice
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")
    assert "Unfinished" not in (tmp_path / "whole" / "report.html").read_text("utf-8")


def test_a_finished_report_is_written_again_without_measuring(tmp_path: Path) -> None:
    report(subject(), tmp_path)
    before = files(tmp_path)
    (tmp_path / "report.html").unlink()
    told = Stopping()
    report(subject(), tmp_path, progress=told)
    assert told.told == [("", TOTAL, TOTAL)]
    assert files(tmp_path) == before


def test_fresh_measures_again(tmp_path: Path) -> None:
    report(subject(), tmp_path)
    told = Stopping()
    report(subject(), tmp_path, fresh=True, progress=told)
    assert len(told.told) == TOTAL + 1


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (lambda: subject(thresholds=(0.5,)), "thresholds was [0.5, 0.9], now [0.5]"),
        (lambda: subject(prompts=encode(base(), QUESTIONS[:1])), "prompts was "),
        (lambda: subject(model=dataclasses.replace(converted(seed=1), source="converted")), "model_says was "),
        (lambda: subject(base=dataclasses.replace(base(seed=1), source=base().source)), "base_says was "),
    ],
    ids=["thresholds", "prompts", "trained further", "another base"],
)
def test_other_settings_are_refused_and_nothing_is_lost(tmp_path: Path, other: object, named: str) -> None:
    """Also a model whose weights changed under the same name: figures of two training steps would be mixed."""
    report(subject(), tmp_path)
    before = files(tmp_path)
    what: Subject = other()  # type: ignore[operator]
    with pytest.raises(DataError, match="was begun with other settings") as caught:
        report(what, tmp_path)
    assert named in str(caught.value)
    assert "--fresh" in str(caught.value)
    assert files(tmp_path) == before


@pytest.mark.parametrize("content", ["", "[]", '{"records": {}}', "\x00\xff"])
def test_a_file_that_is_no_report_is_not_overwritten(tmp_path: Path, content: str) -> None:
    (tmp_path / "report.json").write_text(content, "utf-8")
    with pytest.raises(DataError, match=r"report\.json is no report of anyorder"):
        report(subject(), tmp_path)
    assert (tmp_path / "report.json").read_text("utf-8") == content
    report(subject(), tmp_path, fresh=True)


def test_a_report_of_another_format_is_refused(tmp_path: Path) -> None:
    report(subject(), tmp_path)
    content = json.loads((tmp_path / "report.json").read_text("utf-8"))
    (tmp_path / "report.json").write_text(json.dumps({**content, "format": 0}), "utf-8")
    with pytest.raises(DataError, match="has the format 0, this version writes 1"):
        report(subject(), tmp_path)


def test_a_run_shows_on_the_page(tmp_path: Path) -> None:
    run = RunFolder(files={"recipe.toml": "rate = 1e-3 # <&"}, losses=[(1, 3.0), (2, 2.0)])
    report(subject(), tmp_path, run=run)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "rate = 1e-3 # &lt;&amp;" in page
    assert "Training loss" in page
