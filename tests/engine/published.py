"""The checkpoints of the reference vectors, in float64 so that sums in another order change no decision."""

from __future__ import annotations

import functools
from pathlib import Path

import anyorder
from anyorder.models.loaded import LoadedModel

FOLDER = Path(__file__).parents[1] / "reference"
MASK_IDS = {"fast_dllm_v2": 155, "llada2_moe": 155, "llada_moe": 155}  # published outside of config.json


@functools.cache
def published(family: str) -> LoadedModel:
    """A tiny random checkpoint in the published layout, by its folder's name."""
    return anyorder.load(FOLDER / family, dtype="float64", device="cpu", mask_token_id=MASK_IDS.get(family))
