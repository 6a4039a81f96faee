"""All tasks by name."""

from __future__ import annotations

from anyorder.tasks.addition import ADDITION
from anyorder.tasks.cities import CITIES
from anyorder.tasks.records import RECORDS
from anyorder.tasks.sudoku import SUDOKU
from anyorder.tasks.task import Task

TASKS: dict[str, Task] = {task.name: task for task in (ADDITION, CITIES, RECORDS, SUDOKU)}
