"""Exams: their problems can be solved, are always the same, and are marked by the whole document."""

from __future__ import annotations

import pytest

from anyorder.canvas import Hole, count_holes
from anyorder.exam import EXAMS, Exam, Score, independent
from anyorder.tasks import cities, sudoku
from anyorder.tasks.vocabulary import MASK_ID, decode

ALL = pytest.mark.parametrize("exam", EXAMS.values(), ids=EXAMS)


def shown(problem: list[int | Hole]) -> str:
    """The document with `_` in its open slots."""
    return "".join("_" * part.length if isinstance(part, Hole) else decode([part]) for part in problem)


@ALL
def test_problems_are_documents_with_the_slots_that_the_exam_says(exam: Exam) -> None:
    problems = exam.problems(100)
    slots = [count_holes(problem) for problem in problems]
    assert min(slots) == exam.slots
    assert all(
        count_holes(problem) + sum(isinstance(p, int) for p in problem) == exam.task.length for problem in problems
    )
    assert all(problem[0] == exam.problems(1)[0][0] for problem in problems)  # the tag is given
    assert all(MASK_ID not in problem for problem in problems)


@ALL
def test_problems_depend_on_seed_and_number_alone(exam: Exam) -> None:
    assert exam.problems(5) == exam.problems(9)[:5]
    if exam.name not in ("cities/any", "records/any", "sudoku/any"):  # which give nothing but what all documents share
        assert exam.problems(5) != exam.problems(5, seed=1)


def test_what_is_open() -> None:
    shows = {name: shown(exam.problems(1)[0]) for name, exam in EXAMS.items()}
    assert shows["addition/sum"].endswith("=___")
    assert shows["addition/both"].startswith("?__+__=")
    assert shows["sudoku/any"] == "#____/____/____/____"
    assert shows["sudoku/8-givens"].count("_") == 8
    assert shows["cities/any"] == "{" + 60 * "_"
    assert shows["cities/population"].rstrip("}").endswith('"pop":' + shows["cities/population"].count("_") * "_")


@pytest.mark.parametrize(
    ("right", "count", "interval"),
    [(0, 10, (0.0, 0.2775)), (10, 10, (0.7225, 1.0)), (5, 10, (0.2366, 0.7634)), (81, 263, (0.2553, 0.3662))],
)
def test_intervals_are_wilsons(right: int, count: int, interval: tuple[float, float]) -> None:
    """Values: Newcombe, Statistics in Medicine 17, 1998, table I (81 of 263), and the closed forms at 0 and 1."""
    assert Score(right=right, count=count, passes=1.0).interval == pytest.approx(interval, abs=1e-4)


def test_independent_draws_by_hand() -> None:
    """Of "ab" and "cd" each column has two characters: four texts come up equally often, and two of them are right."""
    assert independent(["ab", "cd"], 2) == pytest.approx(0.5)
    assert independent(["ab", "a"], 2) == pytest.approx(1.0)  # one column is certain, so nothing can go wrong
    assert independent(sudoku.grids(), 20) == pytest.approx(288 / 4**16)
    assert independent(cities.documents(), 61) < 1e-15
