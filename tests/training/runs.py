"""Runs small enough for a test: a tiny transformer learns to continue counting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from anyorder.models.config import ModelConfig
from anyorder.models.transformer import Transformer
from anyorder.training import noise, objectives
from anyorder.training.batch import Batch
from anyorder.training.noise import StepDraws
from anyorder.training.optimisation import Optimisation
from anyorder.training.passes import TrainingPass
from anyorder.training.trainer import Objective, Running, Trainer

MASK = 15
CONFIG = ModelConfig(
    hidden_size=32,
    intermediate_size=48,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    vocab_size=16,
    max_context=64,
    rms_norm_eps=1e-5,
    tie_word_embeddings=True,
)


def network(seed: int = 0) -> Transformer:
    """float32, random."""
    made = Transformer(CONFIG)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return made


class Counting:
    """Rows that count upwards modulo 15 from a start that their number fixes; the state notes the next row."""

    length = 12

    def __init__(self) -> None:
        self.next = 0

    def batch(self, start: int, count: int) -> Batch:
        assert start == self.next, "rows must be asked for in order"
        self.next = start + count
        first = torch.arange(start, start + count)[:, None] * 7
        return Batch.of((first + torch.arange(self.length)) % MASK)

    def state_dict(self) -> dict[str, Any]:
        return {"next": self.next}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.next = state["next"]


def denoise(batch: Batch, draws: StepDraws) -> TrainingPass:
    """Masked diffusion with ratios that are spread over the batch."""
    groups = batch.num_documents
    t = noise.ratios(noise.stratified(draws.uniform("order", groups), draws.uniform("within", groups)))
    return objectives.masked_diffusion(batch, t, draws.uniform("mask", *batch.ids.shape), mask_token_id=MASK)


def settings(**changes: Any) -> Optimisation:
    numbers: dict[str, Any] = {"steps": 6, "batch_rows": 4, "lr": 1e-2, "warmup": 2, "weight_decay": 0.1}
    return Optimisation(**{**numbers, **changes})


def trainer(
    folder: Path, *, objective: Objective = denoise, running: dict[str, Any] | None = None, **changes: Any
) -> Trainer:
    """A new network in a folder, which may hold a run."""
    options: dict[str, Any] = {"log_every": 1, "save_steps": 100, "measure_rate": False, **(running or {})}
    return Trainer(network(), Counting(), objective, settings(**changes), folder, Running(**options))


def weights(run: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in run.network.named_parameters()}
