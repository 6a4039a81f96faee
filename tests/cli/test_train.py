"""`anyorder train`: every shipped recipe becomes a model that loads and generates; what is wrong is one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.cli.conftest import Cli, Result
from tests.training.corpus import fake_hub
from tests.training.recipe.tiny import RECIPES, small, write_model, write_own

import anyorder
from anyorder.models.shift import ShiftReport
from anyorder.training.recipe import run as recipe_run
from anyorder.training.recipe.read import shipped
from anyorder.training.stepper import Stepper

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
    shown = cli("inspect", str(folder), "--json")
    assert shown.code == 0, shown.err
    facts = json.loads(shown.out)
    assert facts["default_mode"] == MODES[recipe]
    assert facts["block_length"] == model.block_length
    assert (facts["adapter"] is not None) == (recipe == "draft-lora")
    if facts["adapter"]:
        assert facts["adapter"] == {"folder": str(folder), "base": str(tmp_path / "model"), "rank": 32, "alpha": 64.0}
        assert "LoRA of" in cli("inspect", str(folder)).out
    elif MODES[recipe] != "causal":
        assert facts["mask_token_id"] == model.mask_token_id
        assert f"id {model.mask_token_id}" in cli("inspect", str(folder)).out


def test_a_dry_run_says_what_would_be_trained_and_leaves_nothing(cli: Cli, tmp_path: Path) -> None:
    result = train(cli, tmp_path, "llada", extra=("--dry-run",))
    assert (result.code, result.err) == (0, "")
    shown = " ".join(result.out.split())
    for part in (
        "32,288 parameters", "all 32,352 trained", "id 262 '<|mask|>', new", "6 documents, 105 tokens, 93 learned",
        "3 of 48 tokens", "3 of 2 rows: up to 288 tokens, 2 epochs", "0.0001, cosine, warm-up over 1 steps",
        "about", "mode full",
    ):  # fmt: skip
        assert part in shown, part
    assert max(map(len, result.out.splitlines())) <= 80
    assert not (tmp_path / "run").exists()


def test_print_shows_a_recipe_that_can_be_trained(cli: Cli, tmp_path: Path) -> None:
    shown = cli("train", "sdar", "--print")
    assert (shown.code, shown.out) == (0, shipped()["sdar"])
    (tmp_path / "mine.toml").write_text(shown.out, "utf-8")
    assert train(cli, tmp_path, str(tmp_path / "mine.toml"), extra=("--dry-run",)).code == 0
    refused = cli("train", "sdar", "--print", "--dry-run")
    assert (refused.code, refused.err.count("--print")) == (2, 1)


def test_the_recipe_in_the_folder_has_the_changes_and_makes_the_same_run(cli: Cli, tmp_path: Path) -> None:
    train(cli, tmp_path, "sdar", "seed=3")
    again = cli("train", str(tmp_path / "run" / "recipe.toml"), "--out", str(tmp_path / "again"))
    assert again.code == 0, again.err
    for name in ("model.safetensors", "recipe.toml", "data.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Ctrl-C while this step is computed."""
    whole = Stepper.step

    def stepped(self: Stepper, number: int) -> Any:
        if number + 1 == step:
            os.kill(os.getpid(), signal.SIGINT)
        return whole(self, number)

    monkeypatch.setattr(Stepper, "step", stepped)


def test_a_stopped_run_goes_on_as_if_it_had_never_stopped(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longer = "optimisation.epochs=4"
    train(cli, tmp_path, "sdar", longer)
    whole = (tmp_path / "run" / "model.safetensors").read_bytes()
    (tmp_path / "run").rename(tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        stopped = train(cli, tmp_path, "sdar", longer)
    assert stopped.code == 130
    assert "stopped at step 3 of 6; the same command goes on from there" in stopped.err
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert train(cli, tmp_path, "sdar", longer).code == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == whole
    assert [record["step"] for record in log_of(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]


def test_settings_that_may_change_are_told_and_heeded(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stop_at(patch, 1)
        train(cli, tmp_path, "llada")
    result = train(cli, tmp_path, "llada", "optimisation.lr=0.01", "optimisation.epochs=4", "running.keep=1")
    assert result.code == 0
    assert "warning: " in result.err
    assert "goes on with other settings: steps was 3, now 6; " in " ".join(result.err.split())
    assert log_of(tmp_path / "run")[-1]["step"] == 6
    assert "lr = 0.01" in (tmp_path / "run" / "recipe.toml").read_text("utf-8")
    refused = train(cli, tmp_path, "llada", "optimisation.batch_rows=4")
    assert (refused.code, refused.err.count("batch_rows was 2, now 4")) == (2, 1)


def test_a_folder_with_another_run_is_refused_until_fresh(cli: Cli, tmp_path: Path) -> None:
    assert train(cli, tmp_path, "sdar").code == 0
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    other = train(cli, tmp_path, "sdar", "objective.block_length=8", "seed=1")
    assert other.code == 2
    assert "was begun with another recipe (seed was 0, now 1; objective.block_length was 4, now 8)" in other.err
    (tmp_path / "own.jsonl").write_text('{"prompt_ids": [5], "answer_ids": [7, 8, 9]}\n' * 9, "utf-8")
    changed = train(cli, tmp_path, "sdar")
    assert (changed.code, changed.err.count("own.jsonl has changed since")) == (1, 1)
    (tmp_path / "run" / "notes.txt").write_text("mine", "utf-8")
    assert train(cli, tmp_path, "sdar", "objective.block_length=8", extra=("--fresh",)).code == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() != before
    assert (tmp_path / "run" / "notes.txt").read_text("utf-8") == "mine"


def test_a_folder_of_something_else_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine", "utf-8")
    for extra in ((), ("--fresh",)):
        result = train(cli, tmp_path, "sdar", extra=extra)
        assert result.code == 1
        assert "is not empty and holds no run; name another --out" in result.err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"prompt_ids": [5], "answer_ids": [7]}\n{"prompt_ids": [', "own.jsonl, line 2: no valid JSON"),
        ('{"prompt_ids": [5]}\n', "own.jsonl, line 1: needs 'prompt_ids' and 'answer_ids'; it has 'prompt_ids'"),
        ('{"prompt_ids": [5], "answer_ids": [999]}\n', "line 1: token id 999 is outside the vocabulary of 262"),
        ("", "own.jsonl is empty"),
        ('{"prompt_ids": [5], "answer_ids": []}\n', "no token to learn from in 1 records"),
    ],
)
def test_damaged_data_is_one_line_with_file_and_line(cli: Cli, tmp_path: Path, content: str, message: str) -> None:
    write_model(tmp_path / "model")
    (tmp_path / "own.jsonl").write_text(content, "utf-8")
    result = train(cli, tmp_path, "llada")
    assert result.code == 1
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["lada"], 1, "no recipe at 'lada'; did you mean 'llada'"),
        (["llada", "--set", "optimisation.lr=0"], 2, "llada: `optimisation.lr` must be greater than 0, got 0"),
        (["llada", "--set", "lr"], 2, "--set 'lr' is no change; write section.key=value"),
        (["llada", "--set", "data.0.path=nowhere.jsonl"], 1, "no data at nowhere.jsonl: give a file or a folder"),
        (["llada", "--device", "tpu"], 2, "device must be auto, cpu, cuda[:N] or mps, got 'tpu'"),
        (["llada", "--set", "model.source=nowhere"], 1, "no model at 'nowhere'"),
    ],
)
def test_bad_values_are_one_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "model")
    own = [] if any("model.source" in arg for arg in args) else ["--set", f"model.source={tmp_path / 'model'}"]
    result = cli("train", args[0], *own, "--set", "packing.length=48", *args[1:])
    assert (result.code, result.err.count("\n")) == (code, 1)
    assert message in result.err


def test_a_result_that_did_not_learn_its_objective_is_told(cli: Cli, tmp_path: Path) -> None:
    """A model that predicts the next token with certainty does not unlearn it in two steps."""
    report = ShiftReport(declared=False, shifted=-0.1, unshifted=-9.0, vocab_size=262)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe_run, "check_shift", lambda model: report)
        result = train(cli, tmp_path, "llada")
    assert result.code == 0
    assert "trained too little: its rows still predict the next token" in " ".join(result.err.split())


LORA = "method={kind='lora',rank=2,alpha=4.0}"
WAYS: dict[str, tuple[str, list[str], tuple[str, ...]]] = {
    "a causal mode beside the blocks": (
        "bd3lm", ["objective.context=causal", "objective.causal_weight=0.5"], ("block", "causal"),
    ),
    "an adapter in blocks": (
        "fast-dllm-v2", [LORA, "objective.context=frozen", "model.mask_token=<think>"], ("causal", "block"),
    ),
    "an adapter merged": ("sdar", [LORA, "precision.weights=bfloat16"], ("block",)),
    "next tokens only": ("sdar", ["objective={kind='autoregressive'}", "model.mask_token=own"], ("causal", "block")),
    "bfloat16 and recomputed": ("llada", ["precision.compute=bfloat16", "precision.recompute=true"], ("full",)),
    "an average, models in checkpoints": ("sdar", ["optimisation.ema=0.9", "running.models=true"], ("block",)),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_other_ways_end_in_models_that_generate_too(cli: Cli, tmp_path: Path, way: str) -> None:
    recipe, changes, modes = WAYS[way]
    result = train(cli, tmp_path, recipe, *changes)
    assert result.code == 0, result.err
    folders = [tmp_path / "run"]
    if way.endswith("checkpoints"):
        folders += [path / "model" for path in (tmp_path / "run" / "checkpoints").iterdir()]
        assert len(folders) > 1
    for folder in folders:
        model = anyorder.load(folder)
        assert model.spec.modes == modes
        for mode in modes:
            if mode == "causal" or model.mask_token_id is not None:
                settings: dict[str, Any] = {} if mode == "causal" else {"threshold": 0.4}
                assert anyorder.generate(model, "hello", mode=mode, max_new_tokens=9, stop_ids=(), **settings).ids


def test_an_endless_stream_trains_and_goes_on(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_hub(monkeypatch, [{"text": "hello " * n} for n in range(1, 9)])
    write_model(tmp_path / "model")
    changes = [
        f"model.source={tmp_path / 'model'}", "data.0={kind='stream',path='some/set'}", "packing.length=48",
        "packing.order=in-order", "optimisation={steps=6,batch_rows=2,lr=0.01}", "running.log_every=1",
    ]  # fmt: skip

    def stream(out: str) -> Result:
        return cli("train", "llada", "--out", str(tmp_path / out), *flags(changes))

    assert stream("whole").code == 0
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        assert stream("run").code == 130
    assert stream("run").code == 0
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run"))
    assert one == other


@pytest.mark.slow
def test_two_processes_train_what_one_does(cli: Cli, tmp_path: Path) -> None:
    train(cli, tmp_path, "sdar")
    changes = small(tmp_path / "model", tmp_path / "own.jsonl")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "anyorder", "train", "sdar", "--device", "cpu", "--out", str(tmp_path / "two")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *flags(changes)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("holds the model") == 1
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("run", "two"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, msg=name)
