"""Exams: fixed, seeded sets of documents with holes, and how many of them a way of decoding fills rightly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from random import Random
from typing import Any

from anyorder.api import generate_batch
from anyorder.canvas import Hole
from anyorder.models.loaded import LoadedModel
from anyorder.reporting.statistics import proportion
from anyorder.tasks import sudoku, vocabulary
from anyorder.tasks.catalog import TASKS
from anyorder.tasks.task import Task

Problem = list[int | Hole]
Opener = Callable[[str, Random], Iterable[int]]
"""Which columns of a document are open."""


@dataclass(frozen=True, kw_only=True)
class Exam:
    """Documents of one task with holes."""

    name: str
    task: Task
    opens: Opener
    slots: int
    """Open slots of a problem, at least: more `steps` than that are refused."""
    several: bool
    """Do problems have more than one right answer? Then answers are drawn, at temperature 1, else the best is taken."""

    def problems(self, count: int, seed: int = 0) -> list[Problem]:
        """The first `count` problems; those of another seed are others."""
        return [self._problem(Random(f"{self.name}/{seed}/{number}")) for number in range(count)]

    def _problem(self, random: Random) -> Problem:
        text = self.task.draw(random)
        opened = set(self.opens(text, random))
        columns = enumerate(vocabulary.encode(text, self.task.length))
        runs = [(is_open, [token for _, token in run]) for is_open, run in groupby(columns, lambda c: c[0] in opened)]
        return [part for is_open, run in runs for part in ([Hole(len(run))] if is_open else run)]


@dataclass(frozen=True, kw_only=True)
class Score:
    """What an exam came to."""

    right: int
    count: int
    passes: float
    """Mean forward passes per problem."""

    @property
    def share(self) -> float:
        return self.right / self.count

    @property
    def interval(self) -> tuple[float, float]:
        """In which the share of all possible problems lies, with 95 % confidence. Source: E. B. Wilson, 1927."""
        found = proportion(self.right, self.count)
        return found.low, found.high


def sit(model: LoadedModel, exam: Exam, count: int, *, seed: int = 0, **params: Any) -> Score:
    """Fill the holes of `count` problems and count the right documents.

    Args:
        model: with the vocabulary of the tasks, for example `load("tasks")`.
        seed: of the problems and of the draws.
        params: `DecodeParams` fields: how to decode.
    """
    answers = generate_batch(
        model,
        exam.problems(count, seed),
        samples=range(count),
        max_new_tokens=0,
        temperature=1.0 if exam.several else 0.0,
        seed=seed,
        **params,
    )
    right = sum(exam.task.is_right(vocabulary.decode(answer.prompt_ids)) for answer in answers)
    return Score(right=right, count=count, passes=sum(answer.stats.passes for answer in answers) / count)


def independent(documents: Sequence[str], length: int) -> float:
    """Chance of a right document if every column is drawn by itself, from its exact distribution over `documents`.

    All of them are equally likely. It is what one pass over an open document comes to with a perfect model.

    Args:
        length: of a document with the end of text behind it.
    """
    rows = [vocabulary.encode(text, length) for text in documents]
    columns = [Counter(column) for column in zip(*rows, strict=True)]
    return sum(prod(counts[token] / len(rows) for counts, token in zip(columns, row, strict=True)) for row in rows)


def _columns(*spans: tuple[int, int]) -> Opener:
    return lambda text, random: (column for start, stop in spans for column in range(start, stop))


def _between(before: str, after: str) -> Opener:
    def opens(text: str, random: Random) -> Iterable[int]:
        start = text.index(before) + len(before)
        return range(start, text.index(after, start))

    return opens


def _cells(count: int) -> Opener:
    return lambda text, random: random.sample(sudoku.cells(), count)


def _exam(name: str, opens: Opener, slots: int, *, several: bool) -> Exam:
    return Exam(name=name, task=TASKS[name.partition("/")[0]], opens=opens, slots=slots, several=several)


EXAMS: dict[str, Exam] = {
    exam.name: exam
    for exam in (
        _exam("cities/any", _columns((1, 61)), 60, several=True),
        _exam("cities/name", _between('"city":"', '"'), 4, several=False),
        _exam("cities/population", _between('"pop":', "}"), 5, several=False),
        _exam("records/any", _columns((1, 32)), 31, several=True),
        _exam("records/total", _between('"total":', "}"), 1, several=False),
        _exam("addition/sum", _columns((7, 10)), 3, several=False),
        _exam("addition/operand", _columns((4, 6)), 2, several=False),
        _exam("addition/both", _columns((1, 3), (4, 6)), 4, several=True),
        _exam("sudoku/any", _cells(16), 16, several=True),
        _exam("sudoku/4-givens", _cells(12), 12, several=True),
        _exam("sudoku/8-givens", _cells(8), 8, several=False),
    )
}
