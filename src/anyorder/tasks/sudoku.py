"""Sudoku of 4 x 4 cells: `#1234/3412/2143/4321`; rows, columns and the four 2 x 2 boxes hold each digit once."""

from __future__ import annotations

from functools import cache
from itertools import permutations, product
from random import Random

from anyorder.tasks.task import Task

SIZE = 4
DIGITS = "1234"


@cache
def grids() -> tuple[str, ...]:
    """All 288 right documents, in the order of their digits."""
    rows = ["".join(row) for row in permutations(DIGITS)]
    return tuple("#" + "/".join(grid) for grid in product(rows, repeat=SIZE) if _is_valid(grid))


def cells() -> tuple[int, ...]:
    """Columns of the 16 cells in a document."""
    return tuple(1 + row * (SIZE + 1) + column for row in range(SIZE) for column in range(SIZE))


def _is_valid(grid: tuple[str, ...]) -> bool:
    columns = zip(*grid, strict=True)
    boxes = (grid[i][j : j + 2] + grid[i + 1][j : j + 2] for i in (0, 2) for j in (0, 2))
    return all(len(set(unit)) == SIZE for unit in (*columns, *boxes))


def _draw(random: Random) -> str:
    return random.choice(grids())


def _is_right(text: str) -> bool:
    return text in grids()


SUDOKU = Task(
    name="sudoku",
    tag="#",
    length=len(cells()) + SIZE,
    part=r"\d{4}",
    draw=_draw,
    is_right=_is_right,
)
