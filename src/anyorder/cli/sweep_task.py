"""What `anyorder sweep` asks: one prompt, a file of them, or a built-in task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.cli.files import read_text
from anyorder.cli.jsonl import read_jobs, records
from anyorder.cli.prompt import PromptRequest
from anyorder.cli.sweep_flags import SAMPLES
from anyorder.cli.terminal import write_out
from anyorder.errors import DataError, ParameterError

if TYPE_CHECKING:
    from anyorder.sweep.endpoint import Endpoint
    from anyorder.sweep.items import Item, Task


@dataclass(frozen=True)
class Asked:
    """A task, and the only model that can do it, if there is one."""

    task: Task
    model: str | None = None


def asked_for(
    prompt: str | None,
    *,
    task: str | None = None,
    prompts: Path | None = None,
    check: str | None = None,
    samples: int | None = None,
    judge: Endpoint | None = None,
) -> Asked | None:
    """The task that the flags name; None: the tasks were listed, and there is nothing more to do.

    Args:
        judge: who marks the answers to prompts of the user.

    Raises:
        ParameterError: none or several are named, or a flag does not go with it.
        DataError: the file of prompts is damaged.
    """
    sources = {"a prompt": prompt, "--prompts": prompts, "--task": task}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        raise ParameterError(f"give a prompt, --prompts or --task; got {' and '.join(given) or 'none of them'}")
    if samples is not None and samples < 1:
        raise ParameterError(f"--samples must be at least 1, got {samples}")
    if task is not None:
        if judge is not None:
            raise ParameterError("--judge is for your own prompts; a task has its own check; drop it")
        return _built_in(task, check, samples or SAMPLES)
    return Asked(_own(prompt, prompts, check, samples, judge))


def _built_in(name: str, check: str | None, samples: int) -> Asked | None:
    from anyorder.sweep.catalog import CATALOG, GYM_ABOUT, find
    from anyorder.sweep.packages import GYM

    if check is not None:
        raise ParameterError("--check is for your own prompts; a task has its own check; drop it")
    if name == "list":
        lines = {**{name: entry.about for name, entry in CATALOG.items()}, f"{GYM}NAME": GYM_ABOUT}
        width = max(map(len, lines))
        write_out("\n".join(f"{name.ljust(width)}  {about}" for name, about in lines.items()))
        return None
    entry = find(name)
    return Asked(entry.build(samples), entry.model)


def _own(prompt: str | None, file: Path | None, check: str | None, samples: int | None, judge: Endpoint | None) -> Task:
    from anyorder.sweep.items import Item
    from anyorder.sweep.judge import judged_by
    from anyorder.sweep.prompts import judged, task_of

    if file is not None:
        name, items = str(file), _read(file)[:samples]
    else:
        text = PromptRequest(text=prompt or "").text
        name, items = "prompt", [Item(id="prompt", prompt=text, text=text)]
    if judge is None:
        return task_of(name, items, check)
    if check is not None:
        raise ParameterError(f"--check {check} and --judge are two ways to grade; drop one", param="check")
    return judged(name, items, judged_by(judge), judge.model)


def _read(path: Path) -> list[Item]:
    from anyorder.sweep.items import Item, shown

    lines = records(path, read_text(path))
    return [
        Item(id=str(job.key), prompt=job.prompt, text=shown(job.prompt), references=_references(where, record))
        for job, (where, _, record) in zip(read_jobs(path), lines, strict=True)
    ]


def _references(where: str, record: dict[str, Any]) -> tuple[str, ...]:
    found = record.get("reference", [])
    listed = found if isinstance(found, list) else [found]
    if not all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in listed):
        raise DataError(f'{where}: "reference" must be a text, a number, or a list of them, got {found!r}')
    return tuple(map(str, listed))
