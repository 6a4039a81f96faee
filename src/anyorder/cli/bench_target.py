"""What the commands of `anyorder bench` share: the server that is measured, and what is seen while it is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from anyorder.bench.client import Target, model_name
from anyorder.bench.records import Record, RecordFile
from anyorder.bench.run import Told
from anyorder.cli.bench_flags import workload_of
from anyorder.cli.decoding import load_model
from anyorder.cli.serve import check_extra
from anyorder.cli.terminal import err_console
from anyorder.errors import MissingExtra, ParameterError
from anyorder.serving.settings import ServiceSettings


def check(command: str, bench: Mapping[str, Any], load: Mapping[str, Any], engine: Mapping[str, Any]) -> None:
    """What can be wrong apart from values: packages, and flags that would be ignored.

    Args:
        command: of `anyorder bench`, for messages.
    """
    if find_spec("httpx2") is None:
        raise MissingExtra(f"anyorder bench {command} needs httpx2: pip install 'anyorder[bench]'")
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


@contextmanager
def watched(names: Sequence[str], total: int | None, file: RecordFile) -> Generator[Told]:
    """Bars on stderr, one for each load; records of other names are counted nowhere.

    Args:
        total: requests of a load.
        file: with what there is already.
    """
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[errors]}"),
        TimeElapsedColumn(), console=err_console(), transient=True,
    ) as progress:  # fmt: skip
        tasks = {name: progress.add_task(name, total=total, errors="") for name in names}

        def told(load: str, record: Record) -> None:
            if load not in tasks:
                return
            progress.advance(tasks[load])
            if record.error is not None:
                failed = sum(each.error is not None for each in file.of(load))
                progress.update(tasks[load], errors=f"{failed} failed")

        for name, task in tasks.items():
            progress.update(task, advance=len(file.of(name)))
        yield told
