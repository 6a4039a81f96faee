"""The report as one HTML file: no script, nothing to fetch, every figure with its sample and its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from anyorder.conversion.heldout import HeldOut
from anyorder.conversion.measure import Records
from anyorder.conversion.run_folder import RunFolder
from anyorder.conversion.sections import depths, lossless, perplexity, ratios, thresholds
from anyorder.conversion.summary import Summary
from anyorder.conversion.texts import side_by_side
from anyorder.conversion.verdict import verdicts
from anyorder.reporting.chart import Line, Point, chart
from anyorder.reporting.document import document
from anyorder.reporting.markup import figure, in_short


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that the page shows."""

    settings: Mapping[str, Any]
    summary: Summary
    records: Records
    prompts: Sequence[HeldOut]
    refused: Mapping[str, str]
    """Title of a section that could not be measured -> why."""
    missing: float
    """Share of the measurements that are still to be made, in [0, 1]."""
    run: RunFolder


def page(report: Report) -> str:
    """The whole file."""
    title = f"Conversion report: {report.settings['model']}"
    parts = [_head(report), _verdict(report)]
    parts += [section(report.summary) for section in (perplexity, lossless, thresholds, ratios, depths)]
    body = "".join([*parts, side_by_side(report.prompts, report.records), _training(report.run)])
    return document(title, body)


def _head(report: Report) -> str:
    settings = report.settings
    facts = (
        f"{len(report.prompts)} held-out prompts, answers of up to {settings['max_new_tokens']} tokens, "
        f"{settings['dtype']} on {settings['device']} with {settings['threads']} threads, torch {settings['torch']}"
    )
    return (
        f"<p>What the model does, compared with {escape(settings['base'])}, the autoregressive model that it comes "
        f'from. <span class="dim">{escape(facts)}. Brackets are 95 % bootstrap intervals over prompts.</span></p>'
    )


def _verdict(report: Report) -> str:
    points = [(v.tone, v.lead, v.text) for v in verdicts(report.summary)]
    if report.missing:
        share = f"{1 - report.missing:.0%}".replace("%", " %")
        points.insert(0, ("bad", f"Unfinished: {share} are measured.", "The same command goes on from here."))
    points += [("dim", f"Not measured: {title}.", f"{why}.") for title, why in report.refused.items()]
    return in_short(points)


def _training(run: RunFolder) -> str:
    points = [Point(step, loss, loss, loss) for step, loss in run.losses]
    lines = [Line(name="loss", points=points, marks=False)]
    parts = [figure(chart(lines, title="Training loss by step", x="step", y="training loss, nats"))]
    parts += [
        f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>"
        for name, text in run.files.items()
    ]
    return f"<h2>How it was trained</h2>{''.join(parts)}" if any(parts) else ""
