"""Runs that `test_distributed` holds against each other: of one process, and of several.

Several of them do all cases: python -m tests.training.team_run FOLDER, with the environment of `torchrun`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tests.training.runs import CONFIG, MASK, Counting, denoise, network, settings

from anyorder.models.adapter import Adapter
from anyorder.training import objectives
from anyorder.training.batch import Batch
from anyorder.training.distributed import Team, team
from anyorder.training.noise import StepDraws
from anyorder.training.passes import TrainingPass
from anyorder.training.trainee import Trainee
from anyorder.training.trainer import Running, Trainer

CASES = ("network", "micro", "adapter", "bfloat16")
HALF = 3
"""Steps after which some runs are stopped."""


def drafting(batch: Batch, draws: StepDraws) -> TrainingPass:
    return objectives.drafting(batch, mask_token_id=MASK, block_length=3, offset=draws.step % 3)


def adapted() -> Trainee:
    adapter = Adapter(CONFIG, rank=2, alpha=4, mask_token_id=MASK)
    return Trainee(network(), adapter.initialise(torch.zeros(CONFIG.hidden_size)))


def train(folder: Path, case: str, here: Team, steps: int = 2 * HALF) -> None:
    """A run that is in the folder goes on; its weights are left in FOLDER/weights.safetensors."""
    run = Trainer(
        adapted() if case == "adapter" else network(),
        Counting(),
        drafting if case == "adapter" else denoise,
        settings(
            steps=steps,
            schedule="constant",
            precision="bfloat16" if case == "bfloat16" else "network",
            micro_rows=1 if case == "micro" else None,
            ema=0.9,
        ),
        folder,
        Running(log_every=1, save_steps=100, measure_rate=False, recompute=case == "micro"),
        team=here,
    )
    run.run()
    weights = run.weights()
    if here.leads:
        save_file(weights, folder / "weights.safetensors")


def main(folder: Path) -> None:
    """All cases; and one in two halves, of which the first is left alone, too."""
    with team("cpu") as here:
        for case in CASES:
            train(folder / case, case, here)
        train(folder / "half", "network", here, HALF)
        train(folder / "halves", "network", here, HALF)
        train(folder / "halves", "network", here)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
