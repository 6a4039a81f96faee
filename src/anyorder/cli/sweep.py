"""`anyorder sweep`: many ways of decoding on the same prompts, and the fastest that is good enough."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from anyorder.cli import sweep_endpoints as endpoints
from anyorder.cli.files import read_text
from anyorder.cli.flags import LOAD_FLAGS, takes
from anyorder.cli.progress import counting
from anyorder.cli.sweep_flags import BUDGET, CONFIDENCE, ENDPOINT_FLAGS, SWEEP_FLAGS, SWEPT_FLAGS
from anyorder.cli.sweep_table import table
from anyorder.cli.sweep_task import Asked, asked_for
from anyorder.cli.terminal import err_console, write_out
from anyorder.errors import ParameterError

if TYPE_CHECKING:
    from anyorder.sweep.items import Task
    from anyorder.sweep.run import Plan, Progress
    from anyorder.sweep.settings import Setting
    from anyorder.sweep.summary import Summary

NAME = "sweep"
HELP = """Measure quality and speed of many settings, and find the fastest that is good enough.

Decoding flags take several values: --steps 256,128,64 --block-length 16,32. steps, threshold, factor, entropy_bound
and entropy_threshold are alternatives, everything else is combined. Every setting answers the same prompts, and a
setting that is proven to be within --budget of the best, or proven not to be, gets no more of them.

The folder gets sweep.json, sweep.html (curves, table, outputs side by side) and preset.toml, the fastest setting inside
the budget, which generate, chat and serve load with --preset. Stop at any time; the same command goes on.
"""
EXAMPLES = """[bold]Examples[/]

anyorder sweep "Explain entropy." --max-new-tokens 256 --steps 256,128,64,32,16 --model GSAI-ML/LLaDA-8B-Instruct

anyorder sweep --task sudoku/any --model tasks --steps 16,8,4,2,1 --threshold 0.9,0.7

anyorder sweep --prompts mine.jsonl --check numeric --mode block --threshold 0.99,0.9,0.8,0.7 --budget 0.02

anyorder sweep --prompts mine.jsonl --settings settings.toml --samples 200

anyorder sweep --url http://localhost:8000/v1 --prompts mine.jsonl --threshold 0.95,0.8 --judge https://api.example.com/v1
"""


@takes(how=SWEEP_FLAGS, ends=ENDPOINT_FLAGS, params=SWEPT_FLAGS, load=LOAD_FLAGS)
def command(
    prompt: Annotated[str | None, typer.Argument(help="One prompt, instead of many.", show_default=False)] = None,
    *,
    how: dict[str, Any],
    ends: dict[str, Any],
    params: dict[str, Any],
    load: dict[str, Any],
) -> None:
    """Checks first everything that can be checked without the model."""
    asking = {name: how.pop(name) for name in ("task", "prompts", "check", "samples") if name in how}
    endpoints.check(ends, load)
    with endpoints.judge_of(ends) as judge:
        asked = asked_for(prompt, judge=judge, **asking)
        if asked is not None:
            run(asked, params, load, ends, **how)


def run(
    asked: Asked,
    swept: dict[str, Any],
    load: dict[str, Any],
    ends: dict[str, Any],
    *,
    settings: Path | None = None,
    budget: float = BUDGET,
    confidence: float = CONFIDENCE,
    full: bool = False,
    seams: bool = False,
    out: Path | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    json: bool = False,
) -> None:
    """Measure, write the folder, say what was found.

    Args:
        swept: the decode flags that the user gave, several values each.
        load: the load flags that the user gave.
        ends: the endpoint flags that the user gave.
    """
    from anyorder.sweep.run import Plan, sweep
    from anyorder.sweep.summary import Limits

    ways, limits = _ways(swept, settings, asked.task), Limits(budget=budget, confidence=confidence)
    folder = out or Path("sweep-" + re.sub(r"[^\w.-]+", "-", asked.task.name))
    with endpoints.subject_of(ends, _only(asked, load, ends), seams=seams) as subject:
        plan = Plan(task=asked.task, subject=subject, settings=ways, limits=limits, full=full)
        with _telling(err_console(), folder) as progress:
            summary = sweep(plan, folder, fresh=fresh, retry_failed=retry_failed, progress=progress)
    _say(summary, plan, folder, as_json=json)


def _ways(swept: dict[str, Any], file: Path | None, task: Task) -> list[Setting]:
    from anyorder.sweep.settings import grid, named
    from anyorder.sweep.settings_file import parse

    common, ways = ({}, []) if file is None else parse(read_text(file), str(file))
    axes = {name: value if isinstance(value, tuple) else (value,) for name, value in swept.items()}
    lists = {name: (value,) for name, value in swept.items() if name in ("stop_ids", "banned_ids")}
    if file is None:
        return named(grid({**axes, **lists}), task.params)
    both = [name for name, values in axes.items() if len(values) > 1 and name not in lists]
    if both:
        raise ParameterError(f"--settings and several values of --{both[0].replace('_', '-')}: put them into the file")
    given = {name: values[0] for name, values in {**axes, **lists}.items()}
    return named(ways or [{}], {**task.params, **common, **given})


def _only(asked: Asked, load: dict[str, Any], ends: dict[str, Any]) -> dict[str, Any]:
    """The load flags, with the only model that can do the task."""
    if asked.model is None:
        return load
    if "url" in ends or load.get("model", asked.model) != asked.model:
        got = f"--model {load['model']}" if "url" not in ends else "--url"
        raise ParameterError(f"task {asked.task.name!r} is for the model {asked.model!r}, got {got}; drop it")
    return {**load, "model": asked.model}


def _say(summary: Summary, plan: Plan, folder: Path, *, as_json: bool) -> None:
    from anyorder.sweep.run import PRESET
    from anyorder.sweep.verdict import verdicts

    if as_json:
        write_out(json.dumps(summary.as_dict(), indent=2))
        return
    write_out(table(summary))
    for _, lead, text in verdicts(summary, plan.limits):
        write_out(f"{lead} {text}")
    console = err_console()
    console.print(f"the page is {folder / 'sweep.html'}, its figures are in sweep.json beside it", soft_wrap=True)
    if summary.fastest is not None:
        console.print(f"use it: anyorder generate --preset {folder / PRESET} ...", soft_wrap=True)


@contextmanager
def _telling(console: Console, out: Path) -> Generator[Progress]:
    """A bar that says what is being measured; after Ctrl-C, what is kept."""
    with counting(console) as bar:
        shown = bar.add_task("measuring", total=None)
        kept = 0

        def tell(setting: str, done: int, most: int) -> None:
            nonlocal kept
            kept = done
            bar.update(shown, description=setting, completed=done, total=most)

        try:
            yield tell
            done = bar.tasks[0].completed + (bar.tasks[0].total is not None)  # told before each answer
            bar.update(shown, description="measured", completed=done, total=done)
        except KeyboardInterrupt:
            bar.console.print(f"interrupted: {kept} answers are in {out}; the same command goes on from there",
                              soft_wrap=True)  # fmt: skip
            raise
