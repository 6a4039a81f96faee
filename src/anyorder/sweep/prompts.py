"""The user's own prompts as a task."""

from __future__ import annotations

import re
from collections.abc import Sequence

from anyorder.errors import DataError, ParameterError
from anyorder.params import did_you_mean
from anyorder.sweep.code import code
from anyorder.sweep.graders import GRADERS, agreement
from anyorder.sweep.items import Grader, Item, Task
from anyorder.sweep.sandbox import check_machine

CHECKS = (*GRADERS, "code")
"""How an answer can be compared with a reference."""


def judged(name: str, items: Sequence[Item], judge: Grader, model: str) -> Task:
    """Prompts whose answers a judge marks.

    Args:
        model: the judge's name.
    """
    return Task(name=name, items=items, grader=judge, grading=f"judge {model}")


def task_of(name: str, items: Sequence[Item], check: str | None) -> Task:
    """Prompts with references, or without any: then the answers of the first setting are the reference.

    Args:
        check: one of `CHECKS`; None: contains, where there are references.
    Raises:
        ParameterError: the check is unknown, or there is nothing to check against.
        DataError: some prompts have references and some have none, or one cannot be read.
    """
    if check is not None and check not in CHECKS:
        raise ParameterError(f"unknown check {check!r}{did_you_mean(check, list(CHECKS))}", param="check")
    without = [item.id for item in items if not item.references]
    if len(without) == len(items):
        if check is not None:
            raise ParameterError(f"--check {check} compares with references, and the prompts of {name} have none; add "
                                 'a "reference" to each line, or drop it', param="check")  # fmt: skip
        return Task(name=name, items=items, grader=agreement, grading="agreement with the first setting",
                    against_first=True)  # fmt: skip
    if without:
        raise DataError(f'{name}: prompt {without[0]!r} has no "reference" and others have one; add it')
    check = check or "contains"
    _check_references(name, items, check)
    if check == "code":
        check_machine()
    return Task(name=name, items=items, grader=code if check == "code" else GRADERS[check], grading=check)


def _check_references(name: str, items: Sequence[Item], check: str) -> None:
    for item in items:
        for reference in item.references:
            fault = _fault(reference, check)
            if fault:
                raise DataError(f"{name}: the reference {reference!r} of prompt {item.id!r} {fault}")


def _fault(reference: str, check: str) -> str | None:
    if not reference.strip():
        return "is empty; write what the answer has to hold"
    if check == "numeric" and not re.search(r"\d", reference):
        return "holds no number; use another --check"
    if check == "regex":
        try:
            re.compile(reference)
        except re.error as error:
            return f"is no regular expression ({error}); mend it"
    if check == "code":
        try:
            compile(reference, "reference", "exec")
        except (SyntaxError, ValueError) as error:
            return f"is no Python ({error}); mend it"
    return None
