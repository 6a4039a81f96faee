"""Addition with carry, written as on paper: `?34+ 7= 41`, numbers aligned to the right."""

from __future__ import annotations

import re
from random import Random

from anyorder.tasks.task import Task

DIGITS = 2
"""Of the longest operand; the sum has one more."""
_SUM = re.compile(r"\?([ \d]{2})\+([ \d]{2})=([ \d]{3})")


def document(a: int, b: int) -> str:
    """The document of a + b; both below 100."""
    return f"?{a:{DIGITS}}+{b:{DIGITS}}={a + b:{DIGITS + 1}}"


def _draw(random: Random) -> str:
    return document(_operand(random), _operand(random))


def _operand(random: Random) -> int:
    """One in five has one digit, one in ten would otherwise."""
    return random.randrange(10) if random.random() < 0.2 else random.randrange(10, 100)


def _is_right(text: str) -> bool:
    found = _SUM.fullmatch(text)
    if found is None or not all(group.strip().isdigit() for group in found.groups()):
        return False
    return text == document(int(found[1]), int(found[2]))


ADDITION = Task(
    name="addition",
    tag="?",
    length=len(document(0, 0)),
    part=r"[ \d]{2,3}",
    draw=_draw,
    is_right=_is_right,
)
