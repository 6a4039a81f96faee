"""Text over time, an answer per line; and percentiles side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anyorder.bench.latency_summary import Latency
from anyorder.bench.records import Record
from anyorder.bench.release import Release, release
from anyorder.errors import MissingExtra

LINES = 5  # answers of a case that are drawn
_TIMES = {"clause_s": "first clause", "sentence_s": "first sentence", "last_s": "last text"}


def plot_latency(records: Mapping[str, Sequence[Record]], found: Sequence[Latency], target: Path) -> None:
    """Draw how the first answers of each case came, and p50, p95 and p99 of its times.

    Args:
        records: case -> its records.
        target: its suffix says the format, .png or .svg.
    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("the plot of a benchmark needs matplotlib: pip install 'anyorder[bench]'") from None
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    timeline, bars = figure.subplots(1, 2)
    for number, (case, of_case) in enumerate(records.items()):
        answers = [each for record in of_case if record.error is None and (each := release(record)).text]
        for index, answer in enumerate(answers[:LINES]):
            _line(timeline, answer, f"C{number}", case if index == 0 else None)
    timeline.set(xlabel="seconds since the request", ylabel="characters there for good", ylim=(0, None))
    timeline.set_title(f"the first {LINES} answers of each kind")
    _bars(bars, found)
    for axis in (timeline, bars):
        axis.grid(alpha=0.3)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=8, loc="upper left")
    figure.savefig(target, dpi=130)


def _line(axis: Any, answer: Release, colour: str, label: str | None) -> None:
    lengths = [0]
    for chunk in answer.chunks:
        lengths.append(lengths[-1] + len(chunk.text))
    times = [0.0, *(chunk.at_s for chunk in answer.chunks)]
    axis.step(times, lengths, where="post", color=colour, alpha=0.8, linewidth=1, label=label)
    axis.plot(times[-1:], lengths[-1:], marker="o", markersize=3, color=colour)


def _bars(axis: Any, found: Sequence[Latency]) -> None:
    """p50 as a bar, p95 and p99 as ticks above it."""
    width = 0.8 / max(len(found), 1)
    for number, each in enumerate(found):
        shown = [(at, figures) for at, name in enumerate(_TIMES) if (figures := getattr(each, name)) is not None]
        places = [at + (number - (len(found) - 1) / 2) * width for at, _ in shown]
        axis.bar(places, [p.p50 for _, p in shown], width * 0.9, color=f"C{number}", label=each.served.load)
        for percent, marker in ((95, "_"), (99, "x")):
            heights = [getattr(p, f"p{percent}") for _, p in shown]
            axis.scatter(places, heights, marker=marker, color="black", s=24, zorder=3)
    axis.set_xticks(range(len(_TIMES)), list(_TIMES.values()))
    axis.set(ylabel="seconds", ylim=(0, None), title="bar: p50, dash: p95, cross: p99")
