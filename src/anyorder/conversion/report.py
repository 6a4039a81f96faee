"""`report`: measure a conversion task by task, and write report.json and report.html."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from anyorder.conversion.heldout import digest
from anyorder.conversion.likelihood import RATIOS, fingerprint
from anyorder.conversion.measure import DRAFTS, SECTIONS, Subject, Task, tasks
from anyorder.conversion.page import Report, page
from anyorder.conversion.run_folder import RunFolder
from anyorder.conversion.summary import Summary, summarise
from anyorder.reporting.journal import Journal

PAGE, RECORDS = "report.html", "report.json"
Progress = Callable[[Task | None, int, int], None]
"""Called before every task and, with None, after the last: the task, how many are done, how many there are."""


def report(
    subject: Subject, out: Path, *, run: RunFolder | None = None, fresh: bool = False, progress: Progress | None = None
) -> Summary:
    """Measure what the records in `out` do not hold yet, then write the page; an interrupt writes the page, too.

    Args:
        out: folder of report.html and report.json, made if it is not there.
        run: the training run, whose recipe, manifest and losses are shown.
        fresh: measure everything again.
        progress: told how far it is.
    Raises:
        DataError: the records in `out` were begun with other settings.
        KeyboardInterrupt: once what was measured so far is written.
    """
    out.mkdir(parents=True, exist_ok=True)
    journal = Journal(out / RECORDS, settings(subject), fresh=fresh)
    try:
        _measure(subject, journal, progress or _silent)
    finally:  # records of whole tasks only, so that a page of them stands at any moment
        summary = _write(subject, journal, out, run or RunFolder())
    return summary


def settings(subject: Subject) -> dict[str, Any]:
    """What the figures depend on; a report goes on only with the same."""
    return {
        "model": subject.model.source,
        "model_says": fingerprint(subject.model, subject.prompts[0].prompt_ids),
        "base": subject.base.source,
        "base_says": fingerprint(subject.base, subject.prompts[0].prompt_ids),
        "prompts": digest(subject.prompts),
        "max_new_tokens": subject.max_new_tokens,
        "thresholds": list(subject.thresholds),
        "ratios": list(RATIOS),
        "drafts": list(DRAFTS),
        "dtype": str(subject.model.dtype).removeprefix("torch."),
        "device": str(subject.model.device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def _measure(subject: Subject, journal: Journal, progress: Progress) -> None:
    waiting = list(tasks(subject, journal.records))
    total = _total(subject)
    for done, task in enumerate(waiting, start=total - len(waiting)):
        progress(task, done, total)
        journal.add(task.section.name, task.prompt.id, task.section.measure(subject, task.prompt, journal.records))
    progress(None, total, total)


def _total(subject: Subject) -> int:
    return len(subject.prompts) * sum(section.refuses(subject) is None for section in SECTIONS)


def _write(subject: Subject, journal: Journal, out: Path, run: RunFolder) -> Summary:
    summary = summarise(journal.records)
    journal.summary = summary.as_dict()
    journal.save()
    shown = Report(
        settings=journal.settings,
        summary=summary,
        records=journal.records,
        prompts=subject.prompts,
        refused={section.title: why for section in SECTIONS if (why := section.refuses(subject)) is not None},
        missing=sum(1 for _ in tasks(subject, journal.records)) / _total(subject),
        run=run,
    )
    (out / PAGE).write_text(page(shown), "utf-8")
    return summary


def _silent(task: Task | None, done: int, total: int) -> None:
    return None
