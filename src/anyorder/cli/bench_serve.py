"""`anyorder bench serve`: a server under load, seen by its clients."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from anyorder.bench.client import Target, model_name
from anyorder.bench.load import Load
from anyorder.bench.plot import plot
from anyorder.bench.prompts import Workload
from anyorder.bench.records import Record, RecordFile
from anyorder.bench.run import Amount, run
from anyorder.bench.summary import Summary, parse_slo, summarise
from anyorder.cli.bench_flags import BENCH_FLAGS, amount_of, loads_of, workload_of
from anyorder.cli.bench_table import show
from anyorder.cli.decoding import load_model
from anyorder.cli.flags import LOAD_FLAGS, takes
from anyorder.cli.serve import ENGINE_FLAGS, check_extra
from anyorder.cli.terminal import err_console, write_out
from anyorder.errors import MissingExtra, ParameterError
from anyorder.serving.settings import ServiceSettings

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
    _check(bench, load, engine)
    with target_of(bench, load, engine) as (target, name):
        workload = workload_of(bench, name)
        settings = {"url": bench.get("url"), "workload": workload.settings(), "burstiness": bench.get("burstiness")}
        file = RecordFile(bench.get("records"), settings, fresh=bench.get("fresh", False))
        try:
            _measure(target, workload, loads, amount, file)
        finally:
            file.close()
            report(bench, loads, file, slo)


def _check(bench: Mapping[str, Any], load: Mapping[str, Any], engine: Mapping[str, Any]) -> None:
    """What can be wrong apart from values: packages, and flags that would be ignored."""
    if find_spec("httpx2") is None:
        raise MissingExtra("anyorder bench serve needs httpx2: pip install 'anyorder[bench]'")
    if "plot" in bench and bench["plot"].suffix not in (".png", ".svg"):
        raise ParameterError(f"--plot must end in .png or .svg, got {bench['plot']}", param="plot")
    workload_of(bench, "")
    ServiceSettings(**engine)
    if "url" not in bench:
        check_extra()
        return
    for name in (*engine, *load):
        if name != "model":
            flag = name.replace("_", "-")
            raise ParameterError(f"--{flag} is for a server started here; it cannot reach into --url", param=name)


@contextmanager
def target_of(
    bench: Mapping[str, Any], load: Mapping[str, Any], engine: Mapping[str, Any]
) -> Generator[tuple[Target, str]]:
    """The server and the name of its model; one is started where none is named."""
    surface = bench.get("surface", "chat")
    if "url" in bench:
        url = bench["url"].rstrip("/") + "/"
        target = Target(url=url, key=os.environ.get(bench.get("api_key_env", "OPENAI_API_KEY")), surface=surface)
        yield target, load.get("model") or asyncio.run(model_name(target))
        return
    from anyorder.server.background import serving

    model = load_model(dict(load))
    with serving(model, engine=ServiceSettings(**engine)) as running:
        target = Target(url=f"{running.url}/v1/", surface=surface)
        yield target, asyncio.run(model_name(target))


def _measure(target: Target, workload: Workload, loads: Sequence[Load], amount: Amount, file: RecordFile) -> None:
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[errors]}"),
        TimeElapsedColumn(), console=err_console(), transient=True,
    ) as progress:  # fmt: skip
        tasks = {each.name: progress.add_task(each.name, total=amount.requests, errors="") for each in loads}

        def told(load: str, record: Record) -> None:
            progress.advance(tasks[load])
            if record.error is not None:
                failed = sum(each.error is not None for each in file.of(load))
                progress.update(tasks[load], errors=f"{failed} failed")

        for load, task in tasks.items():
            progress.update(task, advance=len(file.of(load)))
        asyncio.run(run(target, workload, loads, amount, file, told=told))


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
