"""`sweep`: measure setting by setting and prompt by prompt, and write sweep.json, sweep.html and preset.toml."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.errors import AnyorderError, ParameterError, SweepError
from anyorder.reporting.journal import Journal, Record
from anyorder.sweep.answer import Failed
from anyorder.sweep.items import Item, Task
from anyorder.sweep.page import Report, page
from anyorder.sweep.preset import preset
from anyorder.sweep.race import Race
from anyorder.sweep.settings import Setting
from anyorder.sweep.subject import Subject
from anyorder.sweep.summary import Limits, Summary, scores_of, summarise

RECORDS, PAGE, PRESET = "sweep.json", "sweep.html", "preset.toml"
FAILURES = 8
"""So many answers that fail in a row end a sweep: nobody is there."""
Progress = Callable[[str, int, int], None]
"""Called before every answer: its setting, how many there are, how many there can be at most."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured.

    Raises:
        ParameterError, ModelError, ContextError: a setting cannot be measured, or a number is out of range.
    """

    task: Task
    subject: Subject
    settings: Sequence[Setting]
    limits: Limits
    full: bool = False
    """Measure every setting on every prompt, also where nothing is open any more."""

    def __post_init__(self) -> None:
        if not self.settings:
            raise ParameterError("there is no setting to measure; give at least one")
        for name, value in (("budget", self.limits.budget), ("confidence", self.limits.confidence)):
            if not 0 < value < 1:
                raise ParameterError(f"`{name}` must be between 0 and 1, got {value!r}", param=name)
        if not self.task.items:
            raise ParameterError("there is no prompt to measure with; give at least one")
        for setting in self.settings:
            self._check(setting)

    def _check(self, setting: Setting) -> None:
        for item in self.task.items:
            try:
                self.subject.check(item, setting)
            except AnyorderError as error:
                raise ParameterError(f"setting {setting.name!r}, prompt {item.id!r}: {error}") from error

    def identity(self) -> dict[str, Any]:
        """What records depend on besides their setting and item; a sweep goes on only with the same."""
        return {"task": self.task.name, "content": self.task.digest(), "grading": self.task.grading,
                **self.subject.identity()}  # fmt: skip


def sweep(
    plan: Plan, out: Path, *, fresh: bool = False, retry_failed: bool = False, progress: Progress | None = None
) -> Summary:
    """Measure what the records in `out` do not hold yet, then write the page; an interrupt writes the page, too.

    Args:
        out: folder, made if it is not there.
        fresh: forget what is there.
        retry_failed: ask again where the records say that it failed.
    Raises:
        DataError: the records in `out` are of another model, task or machine.
        SweepError: one answer after the other fails.
        KeyboardInterrupt: once what was measured so far is written.
    """
    out.mkdir(parents=True, exist_ok=True)
    journal = Journal(out / RECORDS, plan.identity(), fresh=fresh)
    if retry_failed:
        _forget_failed(journal)
    try:
        _measure(plan, journal, progress or _silent)
    finally:
        summary = write(plan, journal, out)
    return summary


def write(plan: Plan, journal: Journal, out: Path) -> Summary:
    """The files from the records."""
    summary = summarise(plan.settings, journal.records, [item.id for item in plan.task.items], plan.limits)
    journal.summary = summary.as_dict()
    journal.save()
    shown = Report(plan.subject.name, plan.task, plan.settings, plan.limits, journal.settings, summary, journal.records)
    (out / PAGE).write_text(page(shown), "utf-8")
    if summary.fastest is not None:
        (out / PRESET).write_text(preset(summary.row(summary.fastest), shown), "utf-8")
    else:
        (out / PRESET).unlink(missing_ok=True)
    return summary


def _forget_failed(journal: Journal) -> None:
    for found in journal.records.values():
        for item in [item for item, record in found.items() if "failed" in record]:
            del found[item]


def _measure(plan: Plan, journal: Journal, progress: Progress) -> None:
    """Prompt by prompt, so that all settings are measured on the same ones and under the same load."""
    race = Race(len(plan.settings), budget=plan.limits.budget, error=1 - plan.limits.confidence)
    most, failures = len(plan.settings) * len(plan.task.items), 0
    for number, item in enumerate(plan.task.items):
        for setting in _turn(plan, race, number):
            if item.id in journal.records.get(setting.key, {}):
                continue
            progress(setting.name, sum(map(len, journal.records.values())), most)
            record = _record(plan, journal, setting, item, number)
            journal.add(setting.key, item.id, record)
            failures = failures + 1 if "failed" in record else 0
            if failures == FAILURES:
                raise SweepError(f"{FAILURES} answers in a row failed, the last: {record['failed']}; mend it, and the "
                                 "same command with --retry-failed goes on")  # fmt: skip
        race.observe(scores_of(plan.settings, journal.records, item.id))


def _turn(plan: Plan, race: Race, number: int) -> list[Setting]:
    """Settings to measure on a prompt, each first in turn; the first of all where others are compared with it."""
    count = len(plan.settings)
    active = list(range(count)) if plan.full or count == 1 else race.active()
    if plan.task.against_first and active:
        return [plan.settings[index] for index in sorted({0, *active})]
    start = number % count
    return [plan.settings[index] for index in sorted(active, key=lambda index: (index - start) % count)]


def _record(plan: Plan, journal: Journal, setting: Setting, item: Item, number: int) -> Record:
    try:
        answer = plan.subject.answer(item, setting, number)
    except Failed as failure:
        return failure.as_record()
    first = answer.text if setting is plan.settings[0] else _text(journal, plan.settings[0], item)
    try:
        return answer.as_record(plan.task.grader(item, answer, first))
    except Failed as failure:  # of a judge
        return {**answer.as_record(0.0), **failure.as_record()}


def _text(journal: Journal, setting: Setting, item: Item) -> str | None:
    return journal.records.get(setting.key, {}).get(item.id, {}).get("text")


def _silent(setting: str, done: int, most: int) -> None:
    return None
