"""How answers came, as tables: the kinds side by side, and the percentiles of each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from anyorder.bench.latency_summary import Latency
from anyorder.bench.summary import Summary
from anyorder.cli.bench_table import COLUMNS, cell, headline, notes
from anyorder.cli.terminal import err_console, out_console

_TIMES = {"first_s": "first text, s", "clause_s": "first clause, s", "sentence_s": "first sentence, s",
          "half_s": "half of it, s", "last_s": "last text, s", "chunks": "chunks", "chunk_chars": "characters/chunk",
          "chunk_words": "words/chunk", "late_share": "share in last 10 %", "changed_share": "changed share",
          }  # fmt: skip
_WORD_BY_WORD = 1.5
"""Words of a chunk, at the median, from which text comes in blocks."""


def show_latency(found: Sequence[Latency], background: Summary | None = None) -> None:
    """The kinds side by side; below it the percentiles of each; what went wrong on stderr."""
    console = out_console()
    if len(found) > 1:
        console.print(side_by_side(found))
    for each in found:
        console.print(_headline(each), soft_wrap=True)
        console.print(percentiles(each))
    if background is not None:
        console.print(headline(background), soft_wrap=True)
    for line in [line for each in found for line in remarks(each)] + (notes(background) if background else []):
        err_console().print(line, soft_wrap=True)


def side_by_side(found: Sequence[Latency]) -> Table:
    """Medians, a column per kind."""
    table = Table("p50", box=None, pad_edge=False)
    for each in found:
        table.add_column(each.served.load, justify="right")
    for name, title in _TIMES.items():
        figures = [getattr(each, name) for each in found]
        table.add_row(title, *(cell(each and each.p50) for each in figures))
    table.add_row("failed", *(f"{each.served.requests - each.served.answered}" for each in found))
    return table


def percentiles(each: Latency) -> Table:
    """All figures of one kind."""
    table = Table("", box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for name, title in _TIMES.items():
        figures = getattr(each, name)
        if figures is not None:
            table.add_row(title, *(cell(getattr(figures, column)) for column in COLUMNS))
    return table


def _headline(each: Latency) -> str:
    served = each.served
    parts = [f"{served.load}: {served.answered} of {served.requests} answered"]
    if each.chunk_words is not None and each.chunks is not None:
        words, once = each.chunk_words.p50, each.chunks.p50 <= 1
        blocks = "word by word" if words <= _WORD_BY_WORD else f"in blocks of about {words:.0f} words"
        parts.append("all at once" if once else blocks)
    if each.snapshots:
        parts.append(f"{each.changed_answers} changed what they had shown")
    elif served.answered:
        parts.append("never changed")
    return "\n" + ", ".join(parts)


def remarks(each: Latency) -> list[str]:
    """What must not be overlooked."""
    lines = notes(each.served)
    if each.served.load == "snapshots" and each.snapshots < each.served.answered:
        plain = each.served.answered - each.snapshots
        lines.append(f"snapshots: {plain} answers came as text that is added to; this server may not know `diffusing`")
    return lines
