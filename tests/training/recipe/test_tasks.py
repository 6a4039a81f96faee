"""The recipe of the any-order model: from random weights to a checkpoint that loads, in a few steps."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch

import anyorder
from anyorder.cli.app import run
from anyorder.errors import ParameterError
from anyorder.tasks.catalog import TASKS
from anyorder.training.recipe.network import network_of
from anyorder.training.recipe.plan import look, plan
from anyorder.training.recipe.read import check, parse, recipe_text
from anyorder.training.recipe.spec import Recipe

SMALL = ("optimisation.steps=30", "optimisation.batch_rows=8", "optimisation.ema=0.0", "running.log_every=1")


def recipe(*changes: str) -> Recipe:
    return check(parse(recipe_text("tasks"), "tasks", changes), "tasks")


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]


def test_the_shipped_recipe_trains_all_tasks_from_random_weights() -> None:
    checked = recipe()
    made = plan(checked, look(checked))
    assert made.data.sources[0].kind == "tasks"
    assert all(name in made.data.sources[0].path for name in TASKS)
    network = network_of(checked, made.found, made.mask, torch.device("cpu"))
    assert made.num_trained == sum(value.numel() for value in network.parameters()) <= 2_500_000
    assert 4 * made.num_trained <= 10e6  # bytes, in float32


def test_the_seed_is_of_the_weights_and_of_the_rows() -> None:
    def begun(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        checked = recipe(f"seed={seed}")
        made = plan(checked, look(checked))
        network = network_of(checked, made.found, made.mask, torch.device("cpu"))
        return dict(network.named_parameters())["embed.weight"], made.data.rows.batch(0, 4).ids

    first, again, other = begun(0), begun(0), begun(1)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_few_steps_lower_the_loss_and_give_a_model_of_the_published_family(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run(["train", "tasks", "--out", str(folder), *(part for change in SMALL for part in ("--set", change))]) == 0
    losses = [record["loss"] for record in log_of(folder)]
    assert mean(losses[-5:]) < mean(losses[:5]) - 0.5  # 4.6 nats are those of 98 equal characters
    model = anyorder.load(folder)
    assert (model.spec.name, model.spec.shift, model.spec.modes) == ("llada", False, ("full",))
    assert "diffusion" not in json.loads((folder / "config.json").read_text())  # LLaDA's own way: nothing to add
    assert len(anyorder.generate(model, "?34+ 7=", max_new_tokens=3, stop_ids=()).ids) == 3
    card = (folder / "README.md").read_text("utf-8")
    assert "trained from random weights" in card
    assert "base_model" not in card


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["data.0.shares={chess=1}"], "chess"),
        (["data.0.shares={}"], "must have at least 1 entries, got 0"),
        (["data.0.alone=2"], "less than or equal to 1, got 2"),
        (["data.0.asked=-1"], "greater than or equal to 0, got -1"),
        (["packing.order=in-order"], 'data of kind "tasks" needs packing.order = "best-fit"'),
        (["model.weights=new"], "'trained' or 'random'"),
        (['method={kind="lora"}', "precision.weights=float32"], 'an adapter cannot help `model.weights` "random"'),
    ],
)
def test_what_a_recipe_cannot_say(changes: list[str], message: str) -> None:
    with pytest.raises(ParameterError) as error:
        recipe(*changes)
    assert message in str(error.value)


def test_epochs_of_what_has_no_end_are_refused() -> None:
    text = recipe_text("tasks").replace("\nsteps = ", "\nepochs = ")
    with pytest.raises(ParameterError, match=r'data of kind "tasks" has no end: give `optimisation.steps`'):
        check(parse(text, "tasks"), "tasks")
