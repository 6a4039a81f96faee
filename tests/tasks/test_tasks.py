"""The rules of the tasks, against what brute force says is right."""

from __future__ import annotations

import json
import re
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


def test_parts_are_the_numbers_and_names_of_a_document() -> None:
    texts = {
        "addition": ("?34+ 7= 41", ["34", " 7", " 41"]),
        "cities": ('{"city":"San Jose","country":"USA","pop":1013240}', ["San Jose", "USA", "1013240"]),
        "records": ('[{"fig":3,"kiwi":9,"total":12}]', ["fig", "3", "kiwi", "9", "12"]),
        "sudoku": ("#1234/3412/2143/4321", ["1234", "3412", "2143", "4321"]),
    }
    for name, task in TASKS.items():
        assert re.findall(task.part, texts[name][0]) == texts[name][1]


def test_tags_tell_tasks_apart() -> None:
    assert len({task.tag for task in TASKS.values()}) == len(TASKS)


def test_a_recipe_can_name_every_task() -> None:
    assert set(get_args(TaskName)) == set(TASKS)


def test_sums() -> None:
    """All texts of the right form, against integers."""
    spaced = [f"{number:2}" for number in range(100)]
    right = {f"?{a}+{b}={int(a) + int(b):3}" for a in spaced for b in spaced}
    assert len(right) == 10_000
    assert all(addition.ADDITION.is_right(text) for text in right)
    for a, b, total in product((0, 7, 38, 95), (0, 9, 62), range(200)):
        text = f"?{a:2}+{b:2}={total:3}"
        assert addition.ADDITION.is_right(text) == (a + b == total) == (text in right)
    for wrong in ("?34+7 = 41", "?04+ 7= 11", "?34+ 7=041", "?3 4+ 7= 41", "? ²+ 0=  2", "?34+ 7=41 "):
        assert not addition.ADDITION.is_right(wrong)


def test_short_numbers_and_carries_are_drawn_often_enough_to_be_learned() -> None:
    drawn = [addition.ADDITION.draw(Random(seed)) for seed in range(1000)]
    assert 150 < sum(text[1] == " " for text in drawn) < 250
    carried = sum(int(text[2]) + int(text[5]) >= 10 for text in drawn)
    assert 350 < carried < 550


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
