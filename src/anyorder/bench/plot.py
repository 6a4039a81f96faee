"""Throughput against latency, a point per load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anyorder.bench.summary import Summary
from anyorder.errors import MissingExtra


def plot(summaries: Sequence[Summary], target: Path) -> None:
    """Draw a sweep: times to first and last text over tokens per second, each point named by its load.

    Args:
        target: its suffix says the format, .png or .svg.
    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("the plot of a benchmark needs matplotlib: pip install 'anyorder[bench]'") from None
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True)
    for axis, title, name in zip(axes, ("first text", "last text"), ("ttft_s", "ttlt_s"), strict=True):
        shown = [(summary, getattr(summary, name)) for summary in summaries if getattr(summary, name) is not None]
        rates = [summary.tokens_per_s for summary, _ in shown]
        for percent, line in ((50, "-"), (95, "--"), (99, ":")):
            times = [getattr(figures, f"p{percent}") for _, figures in shown]
            axis.plot(rates, times, line, marker="o", markersize=4, label=f"p{percent}")
        for rate, (summary, figures) in zip(rates, shown, strict=True):
            axis.annotate(
                summary.load, (rate, figures.p99), textcoords="offset points", xytext=(0, 6), ha="center", fontsize=7
            )
        axis.set(xlabel="tokens per second, all answers", ylabel="seconds", title=f"time to {title}", ylim=(0, None))
        axis.margins(x=0.12, y=0.15)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(target, dpi=130)
