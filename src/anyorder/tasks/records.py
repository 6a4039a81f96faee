"""JSON records that add up: `[{"fig":3,"kiwi":9,"total":12}]`, two fruits by the alphabet and their total."""

from __future__ import annotations

import json
from itertools import combinations
from random import Random

from anyorder.tasks.task import Task

FRUITS = ("date", "fig", "kiwi", "lime", "pear", "plum")
_PAIRS = tuple(combinations(FRUITS, 2))


def document(first: str, second: str, counts: tuple[int, int]) -> str:
    """The record of two fruits and how many there are of each, without blanks between its parts."""
    return json.dumps([{first: counts[0], second: counts[1], "total": sum(counts)}], separators=(",", ":"))


def _draw(random: Random) -> str:
    first, second = random.choice(_PAIRS)
    return document(first, second, (random.randint(1, 9), random.randint(1, 9)))


def _is_right(text: str) -> bool:
    try:
        [record] = json.loads(text)
        first, second, _ = record
        return (
            (first, second) in _PAIRS
            and _counted(record[first], record[second])
            and text == document(first, second, (record[first], record[second]))
        )
    except (ValueError, TypeError, KeyError):
        return False


def _counted(*counts: object) -> bool:
    return all(type(count) is int and 1 <= count <= 9 for count in counts)


RECORDS = Task(
    name="records",
    tag="[",
    length=len(document("kiwi", "lime", (9, 9))),
    draw=_draw,
    is_right=_is_right,
)
