"""The figures of a server under load, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from anyorder.bench.summary import Percentiles, Summary
from anyorder.cli.terminal import err_console, out_console

_TIMES = {"ttft_s": "first text, s", "ttlt_s": "last text, s", "gap_s": "gap, s", "tokens_per_request_s": "tokens/s",
          "tokens_per_forward": "tokens/pass", "unused_share": "unused share"}  # fmt: skip
COLUMNS = ("p50", "p90", "p95", "p99", "largest")


def show(summaries: Sequence[Summary]) -> None:
    """An overview, a row per load; below it the percentiles of each load; what went wrong on stderr."""
    console = out_console()
    if len(summaries) > 1:
        console.print(overview(summaries))
    for summary in summaries:
        console.print(percentiles(summary))
    for summary in summaries:
        for line in notes(summary):
            err_console().print(line, soft_wrap=True)


def overview(summaries: Sequence[Summary]) -> Table:
    """Throughput and latency of all loads."""
    table = Table("load", box=None, pad_edge=False)
    for head in ("requests", "failed", "tokens/s", "first p50", "first p95", "last p50", "last p95"):
        table.add_column(head, justify="right")
    for s in summaries:
        times = [cell(p and getattr(p, column)) for p in (s.ttft_s, s.ttlt_s) for column in ("p50", "p95")]
        failed = str(s.requests - s.answered)
        table.add_row(s.load, str(s.requests), failed, f"{s.tokens_per_s:.1f}", *times)
    return table


def percentiles(summary: Summary) -> Table:
    """All figures of one load."""
    table = Table(title=headline(summary), title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for name, title in _TIMES.items():
        figures: Percentiles | None = getattr(summary, name)
        if figures is not None:
            table.add_row(title, *(cell(getattr(figures, column)) for column in COLUMNS))
    return table


def headline(summary: Summary) -> str:
    """What a load came to, in a line."""
    parts = [
        f"{summary.load}: {summary.answered} of {summary.requests} answered in {summary.span_s:.1f} s",
        f"{summary.requests_per_s:.2f} requests/s",
        f"{summary.tokens_per_s:.1f} tokens/s",
    ]
    if summary.goodput_per_s is not None:
        parts.append(f"goodput {summary.goodput_per_s:.2f}/s ({100 * (summary.goodput_share or 0):.0f} %)")
    return "\n" + ", ".join(parts)


def notes(summary: Summary) -> list[str]:
    """What must not be overlooked."""
    lines = [f"{summary.load}: {count} failed: {kind}" for kind, count in sorted(summary.errors.items())]
    if summary.empty:
        lines.append(f"{summary.load}: {summary.empty} answers had no text; they have no time to first text")
    if summary.uncounted:
        lines.append(f"{summary.load}: {summary.uncounted} answers came without usage; no figure of tokens has them")
    if summary.late_s > 0.1:
        lines.append(f"{summary.load}: requests were sent up to {summary.late_s:.1f} s late: the sender is too slow")
    return lines


def cell(value: float | None) -> str:
    """A figure; empty without one."""
    return "" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"
