"""Weights to begin training with, drawn instead of read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from anyorder.models.load.safetensors import Checkpoint
from anyorder.models.weights import Place

RESIDUAL = ("out.weight", "down.weight", "moe.down", "moe.shared_down.weight")
"""What is added to the residual stream."""


class DrawnCheckpoint(Checkpoint):
    """Random weights under their published names; no file is read.

    Norms are 1 and biases 0. A matrix [out, in] is normal with variance 1 / in, an embedding table [V, hidden] with
    1 / hidden; what layer l = 0, 1, ... adds to the residual stream has 1 / (2 (l + 1)) of that, so that the sum does
    not grow with depth. A tensor depends on the seed and its name only.

    Args:
        folder: where config.json and the tokenizer are.
        places: what the architecture needs (`FamilySpec.weight_names`).
    Source: the rule that OLMo calls `mitchell`, arXiv:2402.00838 (there truncated at three deviations).
    """

    def __init__(self, folder: Path, places: Mapping[str, Place], seed: int) -> None:
        self.folder = folder
        self.entries = {}
        self.places = places
        self.seed = seed

    def dtype(self) -> torch.dtype:
        return torch.float32

    def tensor(self, name: str) -> Tensor:
        """The same one whenever it is asked for."""
        place = self.places[name]
        if len(place.shape) == 1:
            return torch.zeros(place.shape) if place.parameter.endswith("bias") else torch.ones(place.shape)
        digest = hashlib.sha256(f"{self.seed}/{name}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:7]))
        return torch.randn(place.shape, generator=generator) * _variance(place) ** 0.5

    def release(self, name: str) -> None:
        """Nothing is kept."""


def _variance(place: Place) -> float:
    layer, _, kind = place.parameter.removeprefix("layers.").partition(".")
    return 1 / place.shape[1] / (2 * (int(layer) + 1) if kind in RESIDUAL else 1)
