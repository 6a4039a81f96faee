"""A sweep in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator

from anyorder.reporting.markup import plain
from anyorder.sweep.summary import Limits, Row, Summary

Finding = tuple[str, str, str]
"""Tone, lead and text."""


def verdicts(summary: Summary, limits: Limits) -> list[Finding]:
    """What the figures say, led by what to use."""
    return [*_choice(summary, limits), *_cliff(summary), *_open(summary), *_failed(summary)]


def _choice(summary: Summary, limits: Limits) -> Iterator[Finding]:
    within = f"within {limits.budget:g} of the best ({summary.best}), at {limits.confidence:.0%} confidence for all"
    if summary.fastest is None:
        yield "bad", "Nothing is proven:", f"no setting is {within} yet; give more prompts or a wider budget."
        return
    row = summary.row(summary.fastest)
    yield "good", f"Use {row.name}:", f"the fastest that is {within}. {_figures(row)}"


def _cliff(summary: Summary) -> Iterator[Finding]:
    if summary.cliff is None:
        return
    if summary.behind_cliff is None:
        yield "plain", f"No cliff behind {summary.cliff}:", "nothing that decodes more at once is proven worse."
        return
    row = summary.row(summary.behind_cliff)
    yield "plain", f"The cliff is behind {summary.cliff}:", f"{row.name} is proven worse. {_figures(row)}"


def _figures(row: Row) -> str:
    rate = f" {plain(row.tokens_per_forward)} tokens per forward," if row.tokens_per_forward else ""
    return f"Quality {plain(row.quality)},{rate} {plain(row.last_s)} s per answer."


def _open(summary: Summary) -> Iterator[Finding]:
    if summary.open:
        yield "dim", f"Open: {', '.join(summary.open)}.", "More prompts would decide."


def _failed(summary: Summary) -> Iterator[Finding]:
    failed = sum(row.failed for row in summary.rows)
    if failed:
        yield "bad", f"{failed} answers failed", "and count as wrong; --retry-failed asks for them again."
