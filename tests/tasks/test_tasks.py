"""The rules of the tasks, against what brute force says is right."""

from __future__ import annotations

import json
import string
from itertools import product
from random import Random
from typing import get_args

import pytest

from anyorder.tasks import addition, cities, records, sudoku
from anyorder.tasks.catalog import TASKS
from anyorder.tasks.task import Task
from anyorder.training.data.spec import TaskName

ALL = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


@ALL
def test_what_is_drawn_is_right_and_fits(task: Task) -> None:
    texts = [task.draw(Random(seed)) for seed in range(500)]
    assert all(task.is_right(text) for text in texts)
    assert max(map(len, texts)) <= task.length
    assert all(text.startswith(task.tag) for text in texts)
    assert len(set(texts)) > 50


@ALL
def test_one_other_character_is_wrong(task: Task) -> None:
    """Guards against rules that only look at a part: every printable character is tried in every column."""
    for seed in range(5):
        text = task.draw(Random(seed))
        for column, other in product(range(len(text)), string.printable):
            changed = text[:column] + other + text[column + 1 :]
            assert task.is_right(changed) == (changed == text)
        assert not task.is_right(text + " ")
        assert not task.is_right(text[:-1])


def test_tags_tell_tasks_apart() -> None:
    assert len({task.tag for task in TASKS.values()}) == len(TASKS)


def test_a_recipe_can_name_every_task() -> None:
    assert set(get_args(TaskName)) == set(TASKS)


def test_sums() -> None:
    right = addition.ADDITION.is_right
    assert right("?1234+ 567= 1801")
    assert right("?9999+9999=19998")
    assert right("?   0+   0=    0")
    assert not right("?1234+ 567= 1802")
    assert not right("?1234+567 = 1801")
    assert not right("?0234+ 567=  801")
    assert not right("?12 4+ 567=  691")
    assert not right("?   ²+   0=    2")


def test_carries_of_all_lengths_are_drawn() -> None:
    """Numbers of every length come often enough to be learned."""
    drawn = [addition.ADDITION.draw(Random(seed)) for seed in range(2000)]
    lengths = [len(text[1:5].strip()) for text in drawn]
    assert all(lengths.count(length) > 80 for length in range(1, 5))


def test_grids_are_those_of_brute_force() -> None:
    """All 4^8 ways to fill the upper half, each completed row by row: 288 grids, as is known."""

    def fits(rows: list[tuple[int, ...]]) -> bool:
        units = [*rows, *zip(*rows, strict=True)]
        units += [(*a[i : i + 2], *b[i : i + 2]) for a, b in zip(rows[::2], rows[1::2], strict=False) for i in (0, 2)]
        return all(len(set(unit)) == len(unit) for unit in units)

    partial: list[list[tuple[int, ...]]] = [[]]
    for _ in range(4):
        partial = [[*rows, row] for rows in partial for row in product((1, 2, 3, 4), repeat=4) if fits([*rows, row])]
    found = {"#" + "/".join("".join(map(str, row)) for row in rows) for rows in partial}
    assert len(found) == 288
    assert found == set(sudoku.grids())


def test_cells_are_the_digits_of_a_grid() -> None:
    (grid, *_) = sudoku.grids()
    assert "".join(grid[column] for column in sudoku.cells()) == grid[1:].replace("/", "")


def test_records_of_cities_are_json_with_shared_beginnings() -> None:
    found = [json.loads(text) for text in cities.documents()]
    assert len(found) == 64
    assert [tuple(record.values()) for record in found] == list(cities.records())
    names = [record["city"] for record in found]
    assert len({name.split()[0] for name in names}) < len(names) / 2  # one word says little
    assert len({record["pop"] for record in found}) == 64  # a population says which record it is


def test_records_that_add_up() -> None:
    """All of them, by their meaning: read as JSON, they are two fruits and a sum."""
    found = [json.loads(text) for text in records.documents()]
    assert len(found) == len({json.dumps(record) for record in found}) == 15 * 81
    for [record] in found:
        (first, a), (second, b), (name, total) = record.items()
        assert name == "total"
        assert first < second
        assert {first, second} <= set(records.FRUITS)
        assert a + b == total
    assert not records.RECORDS.is_right('[{"fig":3,"kiwi":9,"total":13}]')
    assert not records.RECORDS.is_right('[{"kiwi":3,"fig":9,"total":12}]')
    assert not records.RECORDS.is_right('[{"fig":3, "kiwi":9,"total":12}]')
