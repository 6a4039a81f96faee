"""The memory that is foretold: exact for what is kept, and in the right order for what comes and goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.training.recipe.tiny import small, write_model, write_own

from anyorder.training.recipe.estimate import Memory, memory
from anyorder.training.recipe.plan import look, plan
from anyorder.training.recipe.read import check, parse, shipped

LORA = "method={kind='lora',rank=2}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_model(tmp_path / "model")
    write_own(tmp_path / "own.jsonl")
    return tmp_path


def estimated(folder: Path, recipe: str, *changes: str) -> tuple[Memory, int, int]:
    """Memory, parameters, trained numbers."""
    settings = [*small(folder / "model", folder / "own.jsonl"), *changes]
    checked = check(parse(shipped()[recipe], recipe, settings), recipe)
    made = plan(checked, look(checked))
    return memory(made), made.num_parameters, made.num_trained


def test_full_fine_tuning_keeps_sixteen_bytes_per_number(folder: Path) -> None:
    need, parameters, trained = estimated(folder, "llada")
    assert trained == parameters + 2 * 32  # the new mask token's rows
    assert need.weights + need.optimiser == 16 * trained
    assert estimated(folder, "llada", "optimisation.ema=0.9")[0].optimiser == need.optimiser + 4 * trained
    assert estimated(folder, "llada", "precision.compute=bfloat16")[0].weights == need.weights + 2 * trained


def test_an_adapter_keeps_its_base_once(folder: Path) -> None:
    half = estimated(folder, "sdar", LORA, "precision.weights=bfloat16")
    need, parameters, trained = estimated(folder, "sdar", LORA)
    assert need.weights == 4 * parameters + 4 * trained
    assert half[0].weights == 2 * parameters + 4 * trained
    assert need.optimiser == 12 * trained


def test_activations_follow_what_is_fed(folder: Path) -> None:
    def activations(recipe: str, *changes: str) -> int:
        return estimated(folder, recipe, *changes)[0].activations

    whole = activations("llada", "optimisation.micro_rows=2")
    assert activations("llada") < whole
    assert activations("llada", "optimisation.micro_rows=9") == whole  # no more than the batch has
    assert activations("llada", "precision.recompute=true") < activations("llada")
    assert activations("llada", "precision.compute=bfloat16") < activations("llada")
    assert activations("llada") < activations("sdar") < activations("fast-dllm-v2")
    mask = "model.mask_token=<think>"
    frozen = activations("fast-dllm-v2", LORA, mask, "objective.context=frozen")
    assert frozen < activations("fast-dllm-v2", LORA, mask)
