"""The exams of `anyorder.exam` as tasks of a sweep: documents with holes whose every answer can be checked."""

from __future__ import annotations

from collections.abc import Sequence

from anyorder.canvas import Hole
from anyorder.exam import Exam
from anyorder.sweep.answer import Answer
from anyorder.sweep.items import Item, Task
from anyorder.tasks import vocabulary


def task_of(exam: Exam, count: int, seed: int = 0) -> Task:
    """The first `count` problems of an exam, decoded as `anyorder.exam.sit` does. They are token ids of the model
    "tasks"."""

    def grade(item: Item, answer: Answer, first: str | None) -> float:
        return float(exam.task.is_right(vocabulary.decode(answer.ids)))

    return Task(
        name=exam.name,
        items=[
            Item(id=f"{seed}/{number}", prompt=problem, text=_shown(problem))
            for number, problem in enumerate(exam.problems(count, seed))
        ],
        grader=grade,
        grading="the task's own rule",
        params={"max_new_tokens": 0, "temperature": 1.0 if exam.several else 0.0, "seed": seed},
    )


def _shown(problem: Sequence[int | Hole]) -> str:
    return "".join("░" * part.length if isinstance(part, Hole) else vocabulary.decode([part]) for part in problem)
