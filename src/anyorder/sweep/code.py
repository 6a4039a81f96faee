"""Grading of code: it is taken out of the answer, a test is put behind it, and both are run where they harm nothing."""

from __future__ import annotations

import re

from anyorder.sweep.answer import Answer
from anyorder.sweep.items import Item
from anyorder.sweep.sandbox import passes

_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)


def code(item: Item, answer: Answer, first: str | None) -> float:
    """A reference, a Python test, passes behind the code of the answer."""
    program = extract(answer.text)
    return float(any(passes(f"{program}\n\n{test}\n") for test in item.references))


def extract(text: str) -> str:
    """The fenced blocks of an answer, one after the other; all of it where there is none."""
    blocks = _FENCE.findall(text)
    return "\n".join(blocks) if blocks else text


def completed(beginning: str, name: str, text: str) -> str:
    """The program of which the beginning was given, up to the body of the function `name`.

    Args:
        text: the whole function again, or its body; a body ends where a line stands at the margin.
    """
    found = extract(text)
    if re.search(rf"^\s*(?:async\s+)?def\s+{re.escape(name)}\b", found, re.MULTILINE):
        return f"{_imports(beginning)}\n{found}"
    body = re.split(r"^(?=[^\s#])", found if found.startswith((" ", "\t")) else f"    {found}", flags=re.MULTILINE)
    return beginning + body[0]


def _imports(beginning: str) -> str:
    return "\n".join(line for line in beginning.splitlines() if re.match(r"(?:from|import)\s", line))
