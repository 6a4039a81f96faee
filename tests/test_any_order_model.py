"""The model "tasks": exact scores on its exams, the cliff that independence causes, and what recovers from it.

Problems and draws are seeded, so that a score only changes with rounding. The bounds leave four standard errors to the
shares of benchmarks/results/checkable_cliff.json, which has other problems.
"""

from __future__ import annotations

import json
from functools import cache
from math import sqrt
from typing import Any

import pytest
from tests.benchmarks.test_benchmarks_run import ROOT

import anyorder
from anyorder import Hole
from anyorder.cli.app import run
from anyorder.errors import ContextError, ParameterError
from anyorder.exam import EXAMS, Score, independent, sit
from anyorder.models.load.default import EMBEDDED
from anyorder.models.loaded import LoadedModel
from anyorder.tasks import cities, records, sudoku
from anyorder.tasks.catalog import TASKS
from anyorder.training.recipe.read import recipe_text

FOLDER = EMBEDDED / "tasks"
COUNT = 60
DEVIATIONS = 4.0


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return anyorder.load("tasks", device="cpu")


@cache
def results() -> dict[tuple[str, str, float | None], dict[str, Any]]:
    """(exam, way, setting) -> row of the committed benchmark."""
    table = json.loads((ROOT / "benchmarks" / "results" / "checkable_cliff.json").read_text())
    return {
        (result["exam"], row["way"], row["setting"]): {**row, "count": result["count"]}
        for result in table["results"]
        for row in result["rows"]
    }


def sat(model: LoadedModel, exam: str, **params: Any) -> Score:
    """Other problems than those of the benchmark, whose seed is 0."""
    return sit(model, EXAMS[exam], COUNT, seed=1, **params)


def agrees(score: Score, exam: str, way: str, setting: float | None) -> bool:
    """Could both shares be of one model? The spread is that of their pooled share, half a problem at least."""
    row = results()[exam, way, setting]
    pooled = (score.right + row["right"]) / (score.count + row["count"])
    spread = sqrt(pooled * (1 - pooled) * (1 / score.count + 1 / row["count"]))
    return abs(score.share - row["share"]) <= DEVIATIONS * spread + 0.5 / score.count


def test_it_comes_with_all_that_it_was_made_of() -> None:
    assert {path.name for path in FOLDER.iterdir()} >= {
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md", "recipe.toml",
        "data.json", "log.jsonl",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 10e6
    assert (FOLDER / "recipe.toml").read_text("utf-8") == recipe_text("tasks")
    last = json.loads((FOLDER / "log.jsonl").read_text("utf-8").splitlines()[-1])
    assert last["seconds"] <= 40 * 60


def test_it_is_a_published_family_like_any_other(model: LoadedModel) -> None:
    assert (model.source, model.spec.name, model.config.max_context) == ("tasks", "llada", 64)
    with pytest.raises(ParameterError, match="revision"):
        anyorder.load("tasks", revision="main")


@pytest.mark.parametrize("exam", EXAMS)
def test_one_slot_per_pass_scores_as_measured(model: LoadedModel, exam: str) -> None:
    assert agrees(sat(model, exam), exam, "steps", None)


@pytest.mark.parametrize("exam", ["sudoku/any", "sudoku/4-givens"])
def test_independence_is_a_cliff_and_a_threshold_recovers(model: LoadedModel, exam: str) -> None:
    """Half as many passes as slots break half of the grids; a threshold that takes not many more breaks hardly any."""
    one, half = sat(model, exam, steps=1), sat(model, exam, steps=EXAMS[exam].slots // 2)
    sure = sat(model, exam, policy="threshold", threshold=0.9)
    assert one.interval[1] < half.interval[0]
    assert half.interval[1] < sure.interval[0]
    assert agrees(sure, exam, "threshold", 0.9)
    assert sure.passes < EXAMS[exam].slots


@pytest.mark.parametrize(("way", "setting", "params"), [
    ("steps", 1, {"steps": 1}), ("steps", 4, {"steps": 4}), ("steps", 8, {"steps": 8}),
    ("threshold", 0.5, {"threshold": 0.5}), ("threshold", 0.8, {"threshold": 0.8}),
])  # fmt: skip
def test_the_curve_of_an_exam_is_the_measured_one(
    model: LoadedModel, way: str, setting: float, params: dict[str, Any]
) -> None:
    assert agrees(sat(model, "sudoku/any", **params), "sudoku/any", way, setting)


def test_chances_of_independent_slots() -> None:
    assert independent(cities.documents(), TASKS["cities"].length) < 1e-30
    assert independent(records.documents(), TASKS["records"].length) < 1e-8
    assert independent(sudoku.grids(), TASKS["sudoku"].length) < 1e-7


@pytest.mark.parametrize("policy", ["random", "sequential", "low_confidence"])
def test_any_order_of_one_slot_per_pass_comes_to_the_answer(model: LoadedModel, policy: str) -> None:
    """What has one right answer has it in every order."""
    for exam in ("addition/sum", "addition/operand"):
        assert sat(model, exam, policy=policy).share > 0.9


@pytest.mark.parametrize("whole", ["?34+ 7= 41", "?95+38=133", "#1234/3412/2143/4321", "#4132/2314/1423/3241"])
def test_single_gaps_are_filled_from_both_sides(model: LoadedModel, whole: str) -> None:
    """Every character is one that the rest of the document decides."""
    for column in range(1, len(whole)):
        parts = [whole[:column], Hole(1), *([whole[column + 1 :]] if column + 1 < len(whole) else [])]
        assert anyorder.infill(model, parts).prompt_text == whole


def test_text_is_answered_from_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "?34+ 7=", "--model", "tasks", "--max-new-tokens", "3"]) == 0
    assert capsys.readouterr().out == " 41\n"


def test_a_canvas_may_be_longer_than_the_document(model: LoadedModel) -> None:
    answer = anyorder.generate(model, "?34+ 7=", max_new_tokens=57)
    assert (answer.text, answer.finish_reason) == (" 41", "stop")
    with pytest.raises(ContextError):
        anyorder.generate(model, "?34+ 7=", max_new_tokens=58)
