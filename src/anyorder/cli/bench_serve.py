"""`anyorder bench serve`: a server under load, seen by its clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from anyorder.bench.load import Load
from anyorder.bench.plot import plot
from anyorder.bench.records import RecordFile
from anyorder.bench.run import run
from anyorder.bench.summary import Summary, parse_slo, summarise
from anyorder.cli.bench_flags import BENCH_FLAGS, amount_of, loads_of, workload_of
from anyorder.cli.bench_table import show
from anyorder.cli.bench_target import check, target_of, watched
from anyorder.cli.flags import LOAD_FLAGS, takes
from anyorder.cli.serve import ENGINE_FLAGS
from anyorder.cli.terminal import write_out

NAME = "serve"
HELP = """Put a server under load and say how it was for its clients.

Time to the first and to the last text, gaps between the pieces, throughput, goodput, errors by kind.

Any OpenAI-compatible server (--url), or one that is started in this process for the time being.
--concurrency N: N clients, each sends the next request when its answer is complete (closed loop).
--rate R: R requests per second arrive whatever the server does (open loop); times count from the arrival.
Several loads, as 1,2,4,8, are measured one behind the other. Ctrl-C shows what there is so far; with --records the same
command goes on later.
"""
EXAMPLES = """[bold]Examples[/]

anyorder bench serve --concurrency 1,2,4,8,16 --plot sweep.png

anyorder bench serve --url http://localhost:8000/v1 --rate 2 --duration 60 --slo ttft=0.5,ttlt=5

anyorder bench serve --url https://api.example.com/v1 --model name --random-words 50:400 --max-tokens 16:256
"""


@takes(bench=BENCH_FLAGS, load=LOAD_FLAGS, engine=ENGINE_FLAGS)
def command(*, bench: dict[str, Any], load: dict[str, Any], engine: dict[str, Any]) -> None:
    """Everything is checked before a model is loaded or a request is sent."""
    loads, amount = loads_of(bench), amount_of(bench)
    slo = parse_slo(bench["slo"]) if "slo" in bench else None
    check(NAME, bench, load, engine)
    with target_of(bench, load, engine) as (target, name):
        workload = workload_of(bench, name)
        settings = {"url": bench.get("url"), "workload": workload.settings(), "burstiness": bench.get("burstiness")}
        file = RecordFile(bench.get("records"), settings, fresh=bench.get("fresh", False))
        try:
            with watched([each.name for each in loads], amount.requests, file) as told:
                asyncio.run(run(target, workload, loads, amount, file, told=told))
        finally:
            file.close()
            report(bench, loads, file, slo)


def report(
    bench: Mapping[str, Any], loads: Sequence[Load], file: RecordFile, slo: Mapping[str, float] | None
) -> list[Summary]:
    """Table or JSON on stdout, and the plot."""
    summaries = [summarise(each.name, file.of(each.name), slo) for each in loads if file.of(each.name)]
    if bench.get("json"):
        write_out(json.dumps({"slo": slo, "loads": [summary.as_dict() for summary in summaries]}, indent=2))
    else:
        show(summaries)
    if "plot" in bench and summaries:
        plot(summaries, bench["plot"])
    return summaries
