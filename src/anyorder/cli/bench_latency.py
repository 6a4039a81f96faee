"""`anyorder bench latency`: how the text of an answer comes, and how long a voice user waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from anyorder.bench.latency import BACKGROUND, run_cases
from anyorder.bench.latency_plot import plot_latency
from anyorder.bench.latency_summary import latency
from anyorder.bench.records import RecordFile
from anyorder.bench.summary import summarise
from anyorder.cli.bench_latency_flags import (
    LATENCY_FLAGS,
    background_of,
    cases_of,
    kinds_of,
    latency_amount_of,
)
from anyorder.cli.bench_latency_table import show_latency
from anyorder.cli.bench_target import check, target_of, watched
from anyorder.cli.flags import LOAD_FLAGS, takes
from anyorder.cli.serve import ENGINE_FLAGS
from anyorder.cli.terminal import write_out

NAME = "latency"
HELP = """Say how the text of answers comes: when, in what pieces, and whether it stays.

Time to the first text, clause and sentence, to half of it and to the last; the size of chunks; the share of the text
that comes in the last 10 % of the time; text of `diffusing` streams that was changed later.

One user asks, one request after the other, by turns: for text, for snapshots, and short questions as by voice, without
and with `realtime`. --load N puts N other clients in the background. Any OpenAI-compatible server (--url), or one that
is started in this process for the time being. Ctrl-C shows what there is so far; with --records the same command goes
on later.
"""
EXAMPLES = """[bold]Examples[/]

anyorder bench latency --plot latency.png

anyorder bench latency --url http://localhost:8000/v1 --kinds voice,realtime --load 8 --requests 100

anyorder bench latency --url https://api.example.com/v1 --model name --kinds text,snapshots --json
"""


@takes(bench=LATENCY_FLAGS, model=LOAD_FLAGS, engine=ENGINE_FLAGS)
def command(*, bench: dict[str, Any], model: dict[str, Any], engine: dict[str, Any]) -> None:
    """Everything is checked before a model is loaded or a request is sent."""
    kinds, amount = kinds_of(bench), latency_amount_of(bench)
    cases_of(bench, "")
    background_of(bench, "")
    check(NAME, bench, model, engine)
    with target_of(bench, model, engine) as (target, name):
        cases, background = cases_of(bench, name), background_of(bench, name)
        settings = {
            "url": bench.get("url"),
            "load": bench.get("load", 0),
            "think": bench.get("think", 0.5),
            "cases": {case.name: case.workload.settings() for case in cases},
        }
        file = RecordFile(bench.get("records"), settings, fresh=bench.get("fresh", False))
        try:
            with watched(kinds, amount.requests, file) as told:
                asyncio.run(run_cases(target, cases, amount, file, background=background, told=told))
        finally:
            file.close()
            report(bench, kinds, file)


def report(bench: Mapping[str, Any], kinds: Sequence[str], file: RecordFile) -> None:
    """Table or JSON on stdout, and the plot."""
    records = {kind: of_kind for kind in kinds if (of_kind := file.of(kind))}
    found = [latency(kind, of_kind) for kind, of_kind in records.items()]
    others = summarise(BACKGROUND, busy) if (busy := file.of(BACKGROUND)) else None
    if bench.get("json"):
        shown = {"kinds": [each.as_dict() for each in found], "background": others and others.as_dict()}
        write_out(json.dumps(shown, indent=2))
    else:
        show_latency(found, others)
    if "plot" in bench and found:
        plot_latency(records, found, bench["plot"])
