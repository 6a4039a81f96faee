"""A plan in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from anyorder.cli.terminal import out_console

if TYPE_CHECKING:
    from anyorder.plan.decide import Batches
    from anyorder.plan.report import Plan, Verdict


def show_plan(plan: Plan, title: str) -> None:
    """What the machine is, what passes cost, and what follows."""
    console = out_console()
    console.print(title, style="bold", soft_wrap=True)
    for line in _facts(plan):
        console.print(line, soft_wrap=True)
    console.print()
    console.print("Milliseconds of a pass, and the tokens per forward at which it is as fast as causal:")
    console.print(_passes(plan))
    console.print("How much faster one sequence is than causal, by tokens per forward, and up to which batch it pays:")
    console.print(_gains(plan))
    console.print("What is delivered, with the best block length:")
    console.print(_deliveries(plan))


def _facts(plan: Plan) -> list[str]:
    sizes, machine = plan.sizes, plan.machine
    origin = "measured" if machine.measured else "from a data sheet or as given, not measured"
    memory = "" if machine.memory is None else f", {machine.memory / 1e9:.0f} GB"
    ridge = machine.matrix_rate / machine.bandwidth * sizes.itemsize / 2
    ideal = [] if machine.measured else ["nothing but products and attention is counted: no launches, no transfers"]
    return [
        f"machine: {machine.bandwidth / 1e9:,.0f} GB/s, {machine.matrix_rate / 1e12:.3g} Tflop/s{memory} ({origin})",
        f"weights: {sizes.weight_bytes / 1e9:.2f} GB; keys and values: {sizes.kv_bytes / 1e3:.1f} kB per token",
        f"rows that a product takes in the time of one, if both rates hold: {ridge:.0f}",
        *ideal,
    ]


def _passes(plan: Plan) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("batch", justify="right")
    table.add_column("causal", justify="right")
    for rows in plan.question.rows:
        table.add_column(f"block {rows}", justify="right")
    for batch in sorted({point.batch for point in plan.points}):
        points = [point for point in plan.points if point.batch == batch]
        cells = [f"{_ms(point.block_s)}  {point.break_even:5.2f}" for point in points]
        table.add_row(str(batch), _ms(points[0].causal_s), *cells)
    return table


def _gains(plan: Plan) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("block", justify="right")
    rates = plan.question.tokens_per_forward
    for rate in rates:
        table.add_column(f"{rate:g} per pass", justify="right")
    for rows in plan.question.rows:
        found = {verdict.tokens_per_forward: verdict for verdict in plan.verdicts if verdict.rows == rows}
        table.add_row(str(rows), *(_gain(found[rate]) if rate in found else "" for rate in rates))
    return table


def _gain(verdict: Verdict) -> str:
    return f"{verdict.speedup:.2f}x  {_range(verdict.pays):>6}"


def _deliveries(plan: Plan) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("decoding")
    heads = ["tokens/s alone", f"at batch {plan.causal.best_batch}"]
    heads += ["a million"] if plan.machine.price is not None else []
    heads += ["machines"] if plan.question.load is not None else []
    for head in heads:
        table.add_column(head, justify="right")
    table.add_row("causal", *_figures(plan.causal))
    for verdict in plan.best():
        table.add_row(f"{verdict.tokens_per_forward:g} per pass, block {verdict.rows}", *_figures(verdict))
    return table


def _figures(verdict: Verdict) -> list[str]:
    cells = [f"{verdict.tokens_per_second:,.0f}", f"{verdict.best_tokens_per_second:,.0f}"]
    cells += [] if verdict.million is None else [f"{verdict.million:.3g}"]
    if verdict.fleet is not None:
        fleet = verdict.fleet
        cells.append(str(fleet.accelerators) + ("" if fleet.shards == 1 else f" ({fleet.copies} x {fleet.shards})"))
    return cells


def _range(pays: Batches | None) -> str:
    """`64`: up to there; `4-64`: not below 4 either."""
    if pays is None:
        return "never"
    last = "any" if pays.last is None else f"{pays.last:,}"
    return last if pays.first == 1 else f"{pays.first}-{last}"


def _ms(seconds: float) -> str:
    milliseconds = seconds * 1e3
    return f"{milliseconds:.{2 if milliseconds < 10 else 1 if milliseconds < 100 else 0}f}"
