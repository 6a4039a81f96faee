"""A run learns, and one that was stopped anywhere ends as if it had not been."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.training.runs import Counting, denoise, network, settings, trainer, weights

from anyorder.errors import ParameterError, TrainingError
from anyorder.training import checkpoint, log, snapshot
from anyorder.training.batch import Batch
from anyorder.training.noise import StepDraws
from anyorder.training.passes import TrainingPass
from anyorder.training.trainer import Objective, Running, Trainer


def stopping(step: int, number: signal.Signals) -> Objective:
    """The objective of `denoise`, which sends this process a signal in a step."""

    def objective(batch: Batch, draws: StepDraws) -> TrainingPass:
        if draws.step == step:
            os.kill(os.getpid(), number)
        return denoise(batch, draws)

    return objective


def test_a_run_learns(tmp_path: Path) -> None:
    run = trainer(tmp_path, steps=300, batch_rows=8, warmup=10, running={"log_every": 20})
    outcome = run.run()
    records = log.read(tmp_path / "log.jsonl")
    assert [record["step"] for record in records] == list(range(20, 301, 20))
    assert records[-1]["loss"] < records[0]["loss"] / 3
    assert (outcome.step, outcome.signal) == (300, None)
    assert outcome.tokens == records[-1]["tokens"] == 300 * 8 * Counting.length
    assert checkpoint.steps(run.checkpoints) == [100, 200, 300]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "changes",
    [{}, {"ema": 0.9, "precision": "bfloat16", "micro_rows": 3}, {"schedule": "wsd", "decay": 2, "clip": None}],
    ids=["plain", "average in bfloat16", "wsd"],
)
def test_a_stopped_run_goes_on_bit_by_bit(tmp_path: Path, number: signal.Signals, changes: dict[str, Any]) -> None:
    straight = trainer(tmp_path / "straight", **changes)
    straight.run()
    first = trainer(tmp_path / "stopped", objective=stopping(3, number), **changes)
    outcome = first.run()
    assert (outcome.signal, outcome.step) == (number.name, 4), "the step is finished"
    second = trainer(tmp_path / "stopped", **changes)
    assert second.run().signal is None
    for name, value in weights(straight).items():
        assert torch.equal(value, weights(second)[name]), name
    for name, value in straight.weights().items():
        assert torch.equal(value, second.weights()[name]), f"average of {name}"
    assert [record["loss"] for record in log.read(tmp_path / "stopped" / "log.jsonl")] == [
        record["loss"] for record in log.read(tmp_path / "straight" / "log.jsonl")
    ]


def test_micro_batches_change_nothing_but_rounding(tmp_path: Path) -> None:
    """Ratios, masks and normalisation are those of the whole batch."""
    runs = [trainer(tmp_path / str(rows), steps=2, micro_rows=rows) for rows in (4, 3, 1)]
    for run in runs:
        run.run()
    for run in runs[1:]:
        for name, value in weights(runs[0]).items():
            torch.testing.assert_close(weights(run)[name], value, rtol=1e-4, atol=1e-6)


def test_a_run_that_is_done_stays_as_it_is(tmp_path: Path) -> None:
    trainer(tmp_path).run()
    before = (tmp_path / "log.jsonl").read_text()
    again = trainer(tmp_path)
    assert again.run().step == 6
    assert (tmp_path / "log.jsonl").read_text() == before


def test_a_longer_run_goes_on(tmp_path: Path) -> None:
    trainer(tmp_path).run()
    with pytest.warns(UserWarning, match="goes on with other settings: steps was 6, now 8"):
        assert trainer(tmp_path, steps=8).run().step == 8


def test_checkpoints_come_by_steps_and_by_time(tmp_path: Path) -> None:
    by_steps = trainer(tmp_path / "steps", running={"save_steps": 2, "keep": 2})
    by_steps.run()
    assert checkpoint.steps(by_steps.checkpoints) == [4, 6]
    by_time = trainer(tmp_path / "time", running={"save_s": 1e-9, "keep": 10})
    by_time.run()
    assert checkpoint.steps(by_time.checkpoints) == [1, 2, 3, 4, 5, 6]


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    straight = trainer(tmp_path, running={"save_steps": 2})
    straight.run()
    damaged = straight.checkpoints / "step-6" / "parameters.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\0")
    again = trainer(tmp_path, running={"save_steps": 2})
    with pytest.warns(UserWarning, match=r"step-6 is damaged: parameters.safetensors .*trying the one before"):
        again.run()
    for name, value in weights(straight).items():
        assert torch.equal(value, weights(again)[name]), name


def test_a_loss_that_is_no_number_names_its_step(tmp_path: Path) -> None:
    def objective(batch: Batch, draws: StepDraws) -> TrainingPass:
        p = denoise(batch, draws)
        if draws.step == 3:
            p.weights.fill_(float("nan"))
        return p

    run = trainer(tmp_path, objective=objective, running={"save_steps": 2, "log_every": 4})
    with pytest.raises(TrainingError, match=r"step 4: the loss is nan .*the checkpoint of step 2 is kept"):
        run.run()
    assert checkpoint.steps(run.checkpoints) == [2]


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trainer(tmp_path, running={"save_steps": 2})
    write = snapshot.write_safetensors

    def full(path: Path, *rest: Any) -> None:
        write(path, *rest)
        if "step-4" in str(path) and path.name.startswith("optimizer"):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot, "write_safetensors", full)
    with pytest.raises(TrainingError, match=r"checkpoint of step 4 cannot be written.*No space.*step 2 is kept"):
        run.run()
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-2"]


def test_a_run_can_be_left_and_taken_up_at_any_step(tmp_path: Path) -> None:
    straight = trainer(tmp_path / "straight")
    straight.run()
    for step in range(6):
        trainer(tmp_path / "often", objective=stopping(step, signal.SIGINT)).run()
    for name, value in weights(straight).items():
        assert torch.equal(value, load_file(tmp_path / "often/checkpoints/step-6/parameters.safetensors")[name]), name


def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    """Nothing ran after the checkpoint of step 4; log and weights are as if nothing had happened."""

    def objective(batch: Batch, draws: StepDraws) -> TrainingPass:
        if draws.step == 5:
            raise MemoryError
        return denoise(batch, draws)

    straight = trainer(tmp_path / "straight")
    straight.run()
    with pytest.raises(MemoryError):
        trainer(tmp_path / "killed", objective=objective, running={"save_steps": 4}).run()
    again = trainer(tmp_path / "killed")
    again.run()
    for name, value in weights(straight).items():
        assert torch.equal(value, weights(again)[name]), name
    steps = [record["step"] for record in log.read(tmp_path / "killed" / "log.jsonl")]
    assert steps == [1, 2, 3, 4, 5, 6]


def test_models_are_published_in_every_checkpoint(tmp_path: Path) -> None:
    def publish(folder: Path, values: Mapping[str, torch.Tensor]) -> None:
        save_file(dict(values), folder / "model.safetensors")

    run = Trainer(network(), Counting(), denoise, settings(ema=0.5), tmp_path, Running(save_steps=3), publish=publish)
    run.run()
    published = [load_file(tmp_path / f"checkpoints/step-{step}/model/model.safetensors") for step in (3, 6)]
    assert not torch.equal(published[0]["norm"], published[1]["norm"])
    for name, value in run.weights().items():
        assert torch.equal(published[1][name], value), "the average is what is published"
    assert not torch.equal(run.weights()["norm"], run.network.get_parameter("norm"))


def test_speed_is_told_as_a_share_of_what_the_machine_can_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyorder.training.trainer.matrix_rate", lambda dtype, device: 1e9)
    outcome = trainer(tmp_path, running={"measure_rate": True, "log_every": 3}).run()
    records = log.read(tmp_path / "log.jsonl")
    assert len(records) == 2
    assert outcome.matrix_share is not None
    slowest, fastest = sorted(record["matrix_share"] for record in records)
    assert 0 < slowest <= fastest < 1
    # operations and tokens of every step are about the same
    assert outcome.matrix_share / outcome.tokens_per_second == pytest.approx(
        records[0]["matrix_share"] / records[0]["tokens_per_second"], rel=0.3
    )


def test_another_run_is_refused(tmp_path: Path) -> None:
    trainer(tmp_path).run()
    with pytest.raises(ParameterError, match="begun otherwise: seed was 0, now 1"):
        trainer(tmp_path, seed=1).run()
    with pytest.raises(ParameterError, match="holds a run; resume it"):
        trainer(tmp_path, running={"resume": False}).run()


def test_nothing_to_train_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no parameter that requires a gradient"):
        Trainer(network().requires_grad_(False), Counting(), denoise, settings(), tmp_path)


@pytest.mark.parametrize("name", ["log_every", "save_steps", "save_s", "keep"])
def test_intervals_must_be_positive(name: str) -> None:
    with pytest.raises(ParameterError, match=f"`{name}` must be positive, got 0"):
        Running(**{"log_every": 1, name: 0})  # pyright: ignore[reportArgumentType]
