"""Graders: how right an answer is, in [0, 1]."""

from __future__ import annotations

import math
import re

from anyorder.reporting.similarity import edit_similarity
from anyorder.sweep.answer import Answer
from anyorder.sweep.items import Grader, Item

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")


def exact(item: Item, answer: Answer, first: str | None) -> float:
    """The answer is a reference, blanks at the ends and between words aside."""
    return float(any(_words(answer.text) == _words(reference) for reference in item.references))


def contains(item: Item, answer: Answer, first: str | None) -> float:
    """A reference stands in the answer, upper and lower case aside."""
    text = " ".join(_words(answer.text)).casefold()
    return float(any(" ".join(_words(reference)).casefold() in text for reference in item.references))


def numeric(item: Item, answer: Answer, first: str | None) -> float:
    """The last number of the answer is the last number of a reference."""
    found = last_number(answer.text)
    wanted = [last_number(reference) for reference in item.references]
    return float(found is not None and any(w is not None and math.isclose(found, w, rel_tol=1e-6) for w in wanted))


def regex(item: Item, answer: Answer, first: str | None) -> float:
    """A reference, read as a regular expression, is found in the answer."""
    return float(any(re.search(reference, answer.text, re.DOTALL) for reference in item.references))


def agreement(item: Item, answer: Answer, first: str | None) -> float:
    """How alike the answer is to that of the first setting: 1 - edit distance in words over the longer length."""
    return 0.0 if first is None else edit_similarity(_words(answer.text), _words(first))


def last_number(text: str) -> float | None:
    """`... is 1,024.` -> 1024.0; None without any."""
    found = _NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def _words(text: str) -> list[str]:
    return text.split()


GRADERS: dict[str, Grader] = {"exact": exact, "contains": contains, "numeric": numeric, "regex": regex}
"""Those that compare with references, by name."""
