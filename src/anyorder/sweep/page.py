"""The sweep as one HTML file: verdict, fronts, a table, what failed, and the outputs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from anyorder.reporting.chart import Line, Point, chart
from anyorder.reporting.document import document
from anyorder.reporting.markup import estimated, figure, in_short, pair, table
from anyorder.reporting.statistics import Estimate
from anyorder.sweep.front import front
from anyorder.sweep.items import Task
from anyorder.sweep.settings import Setting
from anyorder.sweep.summary import Limits, Records, Row, Summary
from anyorder.sweep.texts import side_by_side
from anyorder.sweep.verdict import verdicts

TONES = {"in": "good", "out": "bad", "open": "dim"}


@dataclass(frozen=True)
class Report:
    """Everything that the page shows."""

    subject: str
    task: Task
    settings: Sequence[Setting]
    limits: Limits
    identity: Mapping[str, Any]
    summary: Summary
    records: Records


def page(report: Report) -> str:
    """The whole file."""
    summary, title = report.summary, f"Sweep: {report.subject} on {report.task.name}"
    parts = [
        _head(report),
        in_short(verdicts(summary, report.limits)),
        _fronts(summary),
        _table(summary, report.limits),
        _failures(report),
        side_by_side(report.task, report.settings, report.records),
    ]
    return document(title, "".join(parts))


def _head(report: Report) -> str:
    facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in report.identity.items())
    return (
        f"<p>{len(report.settings)} settings, up to {len(report.task.items)} prompts. "
        f'<span class="dim">{escape(facts)}. '
        "Brackets are 95 % intervals: by Wilson of answers that are right or wrong, "
        "by bootstraps over prompts of everything else.</span></p>"
    )


def _fronts(summary: Summary) -> str:
    by_passes = _curves(summary, "tokens per forward", lambda row: row.tokens_per_forward)
    by_time = _curves(summary, "seconds per answer, median", lambda row: row.last_s, sign=-1)
    areas = ", ".join(f"{escape(name)} {area:.1f}" for name, area in summary.aup.items())
    note = f"<p>Area under the accuracy-parallelism curve (AUP): {areas}.</p>" if areas else ""
    return f"<h2>Quality over speed</h2>{pair([figure(by_passes), figure(by_time)])}{note}"


def _curves(summary: Summary, label: str, read: Callable[[Row], Estimate | None], *, sign: int = 1) -> str:
    """Every setting as a point, and the line of those that none beats; `sign` is -1 where less of x is better."""
    lines = [
        Line(name=series, points=_points(summary, series, read), joined=False)
        for series in dict.fromkeys(row.series for row in summary.rows)
    ]
    every = [point for line in lines for point in line.points]
    best = [every[index] for index in front([(sign * point.x, point.y) for point in every])]
    lines.append(Line(name="front", points=best, marks=False))
    return chart(lines, title=f"quality over {label}", x=label, y="quality")


def _points(summary: Summary, series: str, read: Callable[[Row], Estimate | None]) -> list[Point]:
    found = ((read(row), row.quality) for row in summary.rows if row.series == series)
    return sorted(
        (Point(x.value, y.value, y.low, y.high) for x, y in found if x is not None and y is not None),
        key=lambda point: point.x,
    )


def _table(summary: Summary, limits: Limits) -> str:
    header = (
        "setting", f"within {limits.budget:g} of the best", "quality", "behind the best", "p", "tokens per forward",
        "passes", "first text, s", "whole answer, s", "tokens/s", "memory", "worst pass lost, nats", "prompts",
        "failed",
    )  # fmt: skip
    caption = (
        "Times are medians. Behind: mean difference to the best setting over the prompts that both answered; p of a "
        "sign-flip test, which takes the sample as fixed. Failed answers count as wrong"
    )
    return "<h2>Settings</h2>" + table(caption, header, [_cells(row) for row in summary.rows])


def _cells(row: Row) -> list[str]:
    return [
        escape(row.name),
        f'<span class="{TONES[row.decision]}">{row.decision}</span>',
        estimated(row.quality),
        estimated(row.behind),
        "–" if row.p is None else f"{row.p:.3g}",
        estimated(row.tokens_per_forward),
        estimated(row.passes),
        estimated(row.first_s),
        estimated(row.last_s),
        estimated(row.tokens_per_second, ".4g"),
        "–" if row.memory_bytes is None else f"{row.memory_bytes / 2**20:.2f} MiB",
        estimated(row.worst_gap),
        str(row.answered + row.failed),
        f'<span class="bad">{row.failed}</span>' if row.failed else "0",
    ]


def _failures(report: Report) -> str:
    """Every reason with its count: what failed for good, and what was tried again."""
    rows: list[list[str]] = []
    for setting in report.settings:
        found = report.records.get(setting.key, {}).values()
        lost = Counter(record["failed"] for record in found if "failed" in record)
        again = Counter(reason for record in found for reason in record["retries"])
        rows += [[escape(setting.name), escape(why), "failed", str(count)] for why, count in sorted(lost.items())]
        rows += [[escape(setting.name), escape(why), "tried again", str(count)] for why, count in sorted(again.items())]
    caption = "A failed answer scores 0 and is left out of passes and times"
    return "<h2>What went wrong</h2>" + table(caption, ("setting", "reason", "then", "times"), rows) if rows else ""
