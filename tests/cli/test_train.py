"""`anyorder train`: every shipped recipe becomes a model that loads and generates; what is wrong is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli, Result
from tests.training.recipe.tiny import RECIPES, small, write_model, write_own

import anyorder

pytestmark = pytest.mark.usefixtures("real_load")

MODES = {
    "bd3lm": "block", "diffusiongemma": "causal", "draft-lora": "causal", "fast-dllm-v2": "block", "llada": "full",
    "sdar": "block",
}  # fmt: skip


MASKS = {"draft-lora": ['model.mask_token="<think>"']}
"""An adapter leaves the vocabulary as it is, and a random model has no token that stands in."""


def flags(changes: list[str]) -> list[str]:
    return [part for change in changes for part in ("--set", change)]


def train(cli: Cli, tmp_path: Path, recipe: str, *changes: str, extra: tuple[str, ...] = ()) -> Result:
    """A run in tmp_path/run, of a tiny model that is made on the way."""
    model, own = tmp_path / "model", tmp_path / "own.jsonl"
    if not model.exists():
        write_model(model)
        write_own(own)
    return cli(
        "train",
        recipe,
        "--out",
        str(tmp_path / "run"),
        *flags([*small(model, own), *MASKS.get(recipe, []), *changes]),
        *extra,
    )


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_shipped_recipe_makes_a_model_that_loads_and_generates(cli: Cli, tmp_path: Path, recipe: str) -> None:
    result = train(cli, tmp_path, recipe)
    assert (result.code, result.err.count("error")) == (0, 0), result.err
    folder = tmp_path / "run"
    assert {"recipe.toml", "data.json", "log.jsonl", "README.md", "checkpoints"} <= {p.name for p in folder.iterdir()}
    assert not (folder / ".model.part").exists()
    assert log_of(folder)[-1]["step"] >= 2
    model = anyorder.load(folder)
    assert model.spec.decoder == MODES[recipe] if recipe != "draft-lora" else model.adapter is not None
    generation = anyorder.generate(model, [{"role": "user", "content": "hello"}], max_new_tokens=12)
    assert generation.ids
    assert MODES[recipe] == "causal" or model.mask_token_id not in generation.ids
    if recipe != "draft-lora":
        facts = cli("inspect", str(folder), "--json")
        assert facts.code == 0, facts.err
        assert json.loads(facts.out)["default_mode"] == MODES[recipe]
