"""The built-in tasks by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anyorder.errors import ParameterError
from anyorder.exam import EXAMS
from anyorder.params import did_you_mean
from anyorder.sweep.exams import task_of
from anyorder.sweep.items import Task

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


CATALOG: dict[str, Entry] = {name: _exam(name) for name in EXAMS}
"""Tasks that need nothing but their name."""


def find(name: str) -> Entry:
    """The task of this name.

    Raises:
        ParameterError: there is none.
    """
    if name in CATALOG:
        return CATALOG[name]
    raise ParameterError(f"unknown task {name!r}{did_you_mean(name, list(CATALOG))}", param="task")
