"""Addition with carry, written as on paper: `?1234+ 567= 1801`, numbers aligned to the right."""

from __future__ import annotations

import re
from random import Random

from anyorder.tasks.task import Task

DIGITS = 4
"""Of the longest operand; the sum has one more."""
_SUM = re.compile(r"\?([ \d]{4})\+([ \d]{4})=([ \d]{5})")


def document(a: int, b: int) -> str:
    """The document of a + b; both below 10 000."""
    return f"?{a:{DIGITS}}+{b:{DIGITS}}={a + b:{DIGITS + 1}}"


def _draw(random: Random) -> str:
    return document(_operand(random), _operand(random))


def _operand(random: Random) -> int:
    """1 to 4 digits, twice as often 4 as 3, and so on: else nearly all numbers have four."""
    digits = random.choices(range(1, DIGITS + 1), (1, 2, 4, 8))[0]
    return random.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits)


def _is_right(text: str) -> bool:
    found = _SUM.fullmatch(text)
    if found is None or not all(group.strip().isdigit() for group in found.groups()):
        return False
    return text == document(int(found[1]), int(found[2]))


ADDITION = Task(name="addition", tag="?", length=len(document(0, 0)), draw=_draw, is_right=_is_right)
