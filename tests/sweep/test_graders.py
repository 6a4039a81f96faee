"""Graders say what is right as a person would."""

from __future__ import annotations

import pytest

from anyorder.errors import DataError, ParameterError
from anyorder.sweep.answer import Answer
from anyorder.sweep.graders import GRADERS, agreement, last_number
from anyorder.sweep.items import Item
from anyorder.sweep.prompts import task_of


def answered(text: str) -> Answer:
    return Answer(text=text, tokens=1, passes=1, first_s=0, last_s=0, memory_bytes=None)


def item(*references: str) -> Item:
    return Item(id="one", prompt="?", text="?", references=references)


@pytest.mark.parametrize(
    ("check", "text", "reference", "score"),
    [
        ("exact", " New\n York ", "New York", 1),
        ("exact", "new york", "New York", 0),
        ("contains", "It is PARIS, of course", "paris", 1),
        ("contains", "It is Rome", "Paris", 0),
        ("numeric", "12 + 30 = 42.", "#### 42", 1),
        ("numeric", "42 minus 2 is 40", "42", 0),
        ("numeric", "1,024", "1024.0", 1),
        ("numeric", "none", "42", 0),
        ("regex", "It is Paris.", r"\bParis\b", 1),
        ("regex", "Parisian", r"\bParis\b", 0),
    ],
)
def test_checks(check: str, text: str, reference: str, score: float) -> None:
    assert GRADERS[check](item("nothing of the kind 7", reference), answered(text), None) == score


def test_any_reference_will_do_and_without_one_nothing_does() -> None:
    assert GRADERS["exact"](item("b", "a"), answered("a"), None) == 1
    assert GRADERS["exact"](item(), answered("a"), None) == 0


def test_numbers() -> None:
    assert last_number("-1.5e3") == -1500
    assert last_number("a") is None
    assert last_number("$1,200.50!") == 1200.5


def test_agreement_counts_words() -> None:
    assert agreement(item(), answered("a b c d"), "a b c d") == 1
    assert agreement(item(), answered("a x c d"), "a b c d") == 0.75
    assert agreement(item(), answered("a"), None) == 0  # the first setting failed: nothing to agree with


def test_prompts_without_references_are_compared_with_the_first_setting() -> None:
    found = task_of("p", [item()], None)
    assert found.against_first
    assert found.grader is agreement
    assert not task_of("p", [item("a")], None).against_first


@pytest.mark.parametrize(
    ("items", "check", "kind", "message"),
    [
        ([item()], "exact", ParameterError, "the prompts of p have none"),
        ([item("a")], "exactly", ParameterError, "unknown check 'exactly'; did you mean 'exact'"),
        ([item("a"), item()], None, DataError, "prompt 'one' has no \"reference\" and others have one"),
        ([item(" ")], None, DataError, "is empty"),
        ([item("many")], "numeric", DataError, "holds no number"),
        ([item("(")], "regex", DataError, "is no regular expression"),
    ],
)
def test_what_cannot_be_graded_is_told_before_anything_is_measured(
    items: list[Item], check: str | None, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        task_of("p", items, check)
