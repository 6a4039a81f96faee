"""The figures of a sweep in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyorder.cli.terminal import one_line

if TYPE_CHECKING:
    from anyorder.reporting.statistics import Estimate
    from anyorder.sweep.summary import Row, Summary

HEADER = ("setting", "within", "quality", "prompts", "tok/pass", "first", "last")


def table(summary: Summary) -> str:
    """A line per setting, marked where it is the fastest that is good enough."""
    rows = [HEADER, *(_cells(row) for row in summary.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    marks = ["  ", *("* " if row.name == summary.fastest else "  " for row in summary.rows)]
    return "\n".join(mark + _line(row, widths) for mark, row in zip(marks, rows, strict=True))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2].ljust(widths[2])]
    return "  ".join([*cells, *(cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True))]).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    failed = f" ({row.failed} failed)" if row.failed else ""
    return (
        one_line(row.name),
        row.decision,
        _interval(row.quality),
        f"{row.answered + row.failed}{failed}",
        "-" if row.tokens_per_forward is None else f"{row.tokens_per_forward.value:.2f}",
        _seconds(row.first_s),
        _seconds(row.last_s),
    )


def _interval(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _seconds(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:.3f} s"
