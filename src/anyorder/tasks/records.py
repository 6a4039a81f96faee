"""JSON records that add up: `[{"fig":3,"kiwi":9,"total":12}]`, two fruits by the alphabet and their total."""

from __future__ import annotations

import json
from functools import cache
from itertools import combinations, product
from random import Random

from anyorder.tasks.task import Task

FRUITS = ("date", "fig", "kiwi", "lime", "pear", "plum")
COUNTS = range(1, 10)


def document(first: str, second: str, counts: tuple[int, int]) -> str:
    """The record of two fruits and how many there are of each, without blanks between its parts."""
    return json.dumps([{first: counts[0], second: counts[1], "total": sum(counts)}], separators=(",", ":"))


@cache
def documents() -> tuple[str, ...]:
    """All 1215 right documents."""
    pairs = combinations(FRUITS, 2)
    return tuple(document(*pair, (a, b)) for pair, a, b in product(pairs, COUNTS, COUNTS))


def _draw(random: Random) -> str:
    return random.choice(documents())


def _is_right(text: str) -> bool:
    return text in documents()


RECORDS = Task(
    name="records",
    tag="[",
    length=len(document("kiwi", "lime", (9, 9))),
    part=r'(?<=[{,]")(?!total)[a-z]+|\d+',
    draw=_draw,
    is_right=_is_right,
)
