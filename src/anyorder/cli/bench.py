"""`anyorder bench`: what there is to measure."""

from __future__ import annotations

import typer

from anyorder.cli import bench_latency, bench_serve

NAME = "bench"
HELP = "Measure: a server under load, and how its text comes."

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=HELP)


@app.callback()
def group() -> None:
    """Measure: a server under load, and how its text comes."""


app.command(bench_serve.NAME, help=bench_serve.HELP, epilog=bench_serve.EXAMPLES)(bench_serve.command)
app.command(bench_latency.NAME, help=bench_latency.HELP, epilog=bench_latency.EXAMPLES)(bench_latency.command)
