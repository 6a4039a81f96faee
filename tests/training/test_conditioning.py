"""Self-conditioning: clean tokens are told nothing, the module begins as nothing, and it learns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training import runs

from anyorder.errors import ModelError
from anyorder.training import noise, objectives
from anyorder.training.batch import Batch
from anyorder.training.conditioning import Conditioned, conditioned_loss
from anyorder.training.noise import StepDraws
from anyorder.training.passes import TrainingPass, loss
from anyorder.training.trainer import Trainer


def renoise(batch: Batch, draws: StepDraws) -> TrainingPass:
    """Uniform noise, every second step self-conditioned, with the next-token loss of the clean tokens."""
    made = objectives.uniform_noise(
        batch,
        noise.ratios(draws.uniform("within", batch.num_documents)),
        draws.uniform("mask", *batch.ids.shape),
        draws.uniform("token", *batch.ids.shape),
        vocab_size=15,
        block_length=4,
        causal_weight=1.0,
    )
    return replace(made, conditioned=draws.step % 2 == 0)


def test_a_new_module_changes_nothing() -> None:
    p = renoise(runs.Counting().batch(0, 3), StepDraws(0, 0))
    network = Conditioned(runs.network(), seed=0)
    assert torch.equal(conditioned_loss(network, p), loss(runs.network(), p))
    assert torch.equal(loss(network, p), loss(runs.network(), p))


def test_only_noisy_tokens_are_told_anything() -> None:
    """The causal mode must not come to depend on the module: nobody conditions it when it decodes."""
    network = Conditioned(runs.network(), seed=0)
    with torch.no_grad():
        network.conditioning.down.weight.normal_(generator=torch.Generator().manual_seed(1))
    p = renoise(runs.Counting().batch(0, 3), StepDraws(0, 0))
    clean = p.rows < p.ids.shape[0] // 2
    assert clean.any()
    for scored, changes in ((clean, False), (~clean, True)):
        only = replace(p, weights=torch.where(scored, p.weights, 0.0))
        same = torch.allclose(conditioned_loss(network, only), loss(network, only))
        assert same is not changes


def test_a_run_trains_the_module_and_resumes_bit_by_bit(tmp_path: Path) -> None:
    def trainer(folder: Path, steps: int) -> Trainer:
        return Trainer(
            Conditioned(runs.network(), seed=0),
            runs.Counting(),
            renoise,
            runs.settings(steps=steps, schedule="constant", warmup=0, micro_rows=2),
            folder,
            runs.Running(measure_rate=False),
        )

    whole = trainer(tmp_path / "whole", 6)
    whole.run()
    trainer(tmp_path / "parts", 3).run()
    resumed = trainer(tmp_path / "parts", 6)
    with pytest.warns(UserWarning, match="other settings"):
        resumed.run()
    assert whole.weights()["conditioning.down.weight"].abs().max() > 0
    for name, value in whole.weights().items():
        assert torch.equal(value, resumed.weights()[name]), name


def test_a_network_without_a_module_is_refused() -> None:
    p = renoise(runs.Counting().batch(0, 3), StepDraws(0, 0))
    with pytest.raises(ModelError, match="no module for self-conditioning"):
        conditioned_loss(runs.network(), p)
