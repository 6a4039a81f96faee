"""A plan as a picture: what a block costs, and who delivers more at which batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anyorder.errors import MissingExtra
from anyorder.plan.report import Plan
from anyorder.plan.roofline import Pass, Roofline

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_plan(plan: Plan, target: Path, title: str) -> None:
    """Draw it.

    Args:
        target: its suffix says the format.
    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("the plot needs matplotlib: pip install 'anyorder[plot]'") from None
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    _break_even(plan, left)
    _throughput(plan, right)
    figure.savefig(target, dpi=120)


def _break_even(plan: Plan, axes: Axes) -> None:
    for batch in sorted({point.batch for point in plan.points}):
        points = [point for point in plan.points if point.batch == batch]
        axes.plot([p.rows for p in points], [p.break_even for p in points], marker="o", label=f"batch {batch}")
    axes.set(xlabel="block length", ylabel="break-even tokens per forward", xscale="log")
    axes.minorticks_off()
    axes.set_xticks(plan.question.rows, [str(rows) for rows in plan.question.rows], minor=False)
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3, which="both")


def _throughput(plan: Plan, axes: Axes) -> None:
    """Above the line of causal decoding, denoising pays."""
    roofline, context = Roofline(sizes=plan.sizes, machine=plan.machine), plan.question.context
    batches = sorted({point.batch for point in plan.points})
    causal = [roofline.tokens_per_second(Pass(batch=b, context=context), 1.0) for b in batches]
    axes.plot(batches, causal, color="black", marker="o", label="causal, 1 token per pass")
    rows = plan.question.rows[-1]
    for tpf in plan.question.tokens_per_forward:
        rates = [roofline.tokens_per_second(Pass(batch=b, rows=rows, context=context), tpf) for b in batches]
        axes.plot(batches, rates, marker="o", label=f"block {rows}, {tpf:g} tokens per pass")
    axes.set(xlabel="sequences per pass", ylabel="tokens per second, all sequences", xscale="log", yscale="log")
    axes.minorticks_off()
    axes.set_xticks(batches, [str(batch) for batch in batches], minor=False)
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3, which="both")
