"""A sweep finds its cliff, goes on where it stopped to the same page, and loses no failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.reporting.html_tree import Tree
from tests.sweep.subjects import Simulated, items, plan, settings, task

from anyorder.errors import DataError, ParameterError, SweepError
from anyorder.sweep.answer import Answer
from anyorder.sweep.graders import agreement
from anyorder.sweep.items import Item
from anyorder.sweep.run import PAGE, PRESET, RECORDS, sweep
from anyorder.sweep.settings import Setting

NAMES = [f"steps {steps}" for steps in (16, 8, 4, 2, 1)]


def files(out: Path) -> tuple[bytes, ...]:
    return tuple((out / name).read_bytes() for name in (PAGE, RECORDS, PRESET))


def test_the_cliff_is_found_and_samples_are_spent_where_it_is_open(tmp_path: Path) -> None:
    summary = sweep(plan(1000), tmp_path)
    assert [row.decision for row in summary.rows] == ["in", "in", "in", "out", "out"]
    assert (summary.cliff, summary.behind_cliff, summary.fastest) == ("steps 4", "steps 2", "steps 4")
    asked = {row.name: row.answered for row in summary.rows}
    assert asked["steps 1"] < 40 < asked["steps 16"] < 1000
    row = summary.row("steps 4")
    assert row.tokens_per_forward is not None
    assert (row.tokens_per_forward.value, row.memory_bytes) == (4.0, 4000)
    assert summary.row("steps 1").p < 0.01  # type: ignore[operator]
    assert summary.aup["steps"] > 0


def test_the_preset_is_the_fastest_setting_inside_the_budget(tmp_path: Path) -> None:
    sweep(plan(1000), tmp_path)
    text = (tmp_path / PRESET).read_text("utf-8")
    assert text.endswith("\n[decoding]\nmax_new_tokens = 16\nsteps = 4\n")
    assert "# simulated on simulated: steps 4\n" in text
    assert "within 0.1 of the best" in text


def test_the_page_draws_the_fronts(tmp_path: Path) -> None:
    sweep(plan(200), tmp_path)
    page = (tmp_path / PAGE).read_text("utf-8")
    assert page.count("<svg") == 2
    assert page.count('class="line"') == 2
    assert page.count("<circle") == 2 * len(NAMES)
    assert "Area under the accuracy-parallelism curve (AUP): steps " in page


def test_nothing_proven_names_nothing(tmp_path: Path) -> None:
    (tmp_path / PRESET).write_text("of an earlier run", "utf-8")
    summary = sweep(plan(5), tmp_path)
    assert (summary.cliff, summary.fastest) == (None, None)
    assert summary.open == NAMES
    assert not (tmp_path / PRESET).exists()
    assert "Nothing is proven" in (tmp_path / PAGE).read_text("utf-8")


def test_full_measures_everything(tmp_path: Path) -> None:
    summary = sweep(plan(60, full=True), tmp_path)
    assert {row.answered for row in summary.rows} == {60}


class Stopping:
    """Presses Ctrl-C before an answer."""

    def __init__(self, before: int) -> None:
        self.before = before

    def __call__(self, setting: str, done: int, most: int) -> None:
        if done == self.before:
            raise KeyboardInterrupt


@pytest.mark.parametrize("stops", [[0], [1], [7, 8, 300]])
def test_a_stopped_sweep_goes_on_to_the_same_page(tmp_path: Path, stops: list[int]) -> None:
    def fails(setting: Setting, item: Item) -> str | None:
        return "429: busy" if item.id in ("3", "50") else None

    whole = Simulated(fails=fails)
    sweep(plan(1000, subject=whole), tmp_path / "whole")
    asked: list[tuple[str, str]] = []
    for stop in stops:
        subject = Simulated(fails=fails)
        with pytest.raises(KeyboardInterrupt):
            sweep(plan(1000, subject=subject), tmp_path / "stopped", progress=Stopping(stop))
        assert (tmp_path / "stopped" / PAGE).exists()
        asked += subject.asked
    subject = Simulated(fails=fails)
    sweep(plan(1000, subject=subject), tmp_path / "stopped")
    assert asked + subject.asked == whole.asked  # nothing twice, nothing left out
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


def test_a_finished_sweep_asks_nothing_again_and_may_go_further(tmp_path: Path) -> None:
    sweep(plan(10), tmp_path)
    before, subject = files_without_preset(tmp_path), Simulated()
    sweep(plan(10, subject=subject), tmp_path)
    assert subject.asked == []
    assert files_without_preset(tmp_path) == before
    summary = sweep(plan(20, settings=settings((16, 8, 4)), subject=subject), tmp_path)  # more prompts, fewer settings
    assert [row.answered for row in summary.rows] == [20, 20, 20]
    assert len(subject.asked) == 30


def files_without_preset(out: Path) -> tuple[bytes, bytes]:
    return (out / PAGE).read_bytes(), (out / RECORDS).read_bytes()


def test_another_subject_or_task_is_refused(tmp_path: Path) -> None:
    sweep(plan(5), tmp_path)
    with pytest.raises(DataError, match="begun with other settings"):
        sweep(plan(5, subject=Simulated(seed=1)), tmp_path)
    with pytest.raises(DataError, match="begun with other settings"):
        sweep(plan(5, task=task(5, name="another")), tmp_path)


def test_failures_count_as_wrong_and_are_listed(tmp_path: Path) -> None:
    def fails(setting: Setting, item: Item) -> str | None:
        return "429: <busy>" if setting.name == "steps 8" and int(item.id) % 2 else None

    perfect: dict[int, float] = dict.fromkeys((16, 8, 4, 2, 1), 1.0)
    summary = sweep(plan(40, subject=Simulated(perfect, fails=fails), full=True), tmp_path)
    row = summary.row("steps 8")
    assert (row.answered, row.failed) == (20, 20)
    assert row.quality is not None
    assert row.quality.value == 0.5  # not 1.0, as the answers that came would have it
    assert row.quality.documents == 40
    assert row.last_s is not None
    assert row.last_s.documents == 20
    page = (tmp_path / PAGE).read_text("utf-8")
    assert "429: &lt;busy&gt;" in page
    assert "20 answers failed" in page
    records = json.loads((tmp_path / RECORDS).read_text("utf-8"))["records"]
    failed = [r for found in records.values() for r in found.values() if "failed" in r]
    assert failed == [{"failed": "429: <busy>", "retries": ["busy"], "score": 0.0}] * 20


def test_failed_answers_are_asked_for_again_on_request(tmp_path: Path) -> None:
    sweep(plan(6, subject=Simulated(fails=lambda s, i: "down" if i.id == "2" else None)), tmp_path)
    subject = Simulated()
    assert sum(row.failed for row in sweep(plan(6, subject=subject), tmp_path).rows) == 5
    assert subject.asked == []
    assert sum(row.failed for row in sweep(plan(6, subject=subject), tmp_path, retry_failed=True).rows) == 0
    assert sorted(subject.asked) == sorted((name, "2") for name in NAMES)


def test_a_dead_endpoint_ends_the_sweep_and_keeps_what_there_is(tmp_path: Path) -> None:
    dead = Simulated(fails=lambda s, i: "connection refused" if int(i.id) > 2 else None)
    with pytest.raises(SweepError, match="8 answers in a row failed, the last: connection refused"):
        sweep(plan(50, subject=dead), tmp_path)
    assert (tmp_path / PAGE).exists()
    summary = sweep(plan(50), tmp_path, retry_failed=True)
    assert {row.failed for row in summary.rows} == {0}


def test_without_references_the_first_setting_is_the_reference(tmp_path: Path) -> None:
    subject = Simulated(dict.fromkeys((16, 8, 4, 2, 1), 1.0) | {1: 0.0})
    asked = task(30, grader=agreement, grading="agreement", against_first=True)
    summary = sweep(plan(30, subject=subject, task=asked), tmp_path)
    assert [row.quality.value for row in summary.rows if row.quality] == [1, 1, 1, 1, 0]
    first = {item for name, item in subject.asked if name == "steps 16"}
    assert {item for _, item in subject.asked} == first  # it is measured wherever another one is


def test_a_setting_that_cannot_be_measured_is_told_before_anything_is(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="setting 'steps 17', prompt '0': only 16 slots"):
        plan(5, settings=settings((16, 17)))


@pytest.mark.parametrize("budget", [0, 1, -0.1])
def test_a_budget_is_a_part_of_the_score(budget: float) -> None:
    with pytest.raises(ParameterError, match=f"`budget` must be between 0 and 1, got {budget}"):
        plan(5, budget=budget)


HOSTILE = '</div><script>alert("x")</script> & "'


class Hostile(Simulated):
    """Answers with markup."""

    def answer(self, item: Item, setting: Setting, sample: int) -> Answer:
        return Answer(text=HOSTILE + setting.name, tokens=None, passes=None, first_s=0.1, last_s=0.2, memory_bytes=None)


def test_the_page_is_well_formed_whatever_stands_in_a_text(tmp_path: Path) -> None:
    hostile = [Item(id=HOSTILE, prompt=HOSTILE, text=HOSTILE, references=(HOSTILE,)), *items(2)]
    summary = sweep(plan(3, subject=Hostile(), task=task(3, items=hostile, name=HOSTILE)), tmp_path)
    page = (tmp_path / PAGE).read_text("utf-8")
    tree = Tree(page)
    assert tree.faults == []
    assert "script" not in {tag for tag, _ in tree.tags}
    assert "<mark>8</mark>" in page  # what differs from the first setting's text
    assert summary.rows[0].tokens_per_forward is None  # an endpoint that does not say
    assert summary.aup == {}
