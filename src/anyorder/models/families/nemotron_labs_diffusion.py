"""Nemotron-Labs-Diffusion: Ministral 3 trained in both modes; blocks of 32 both ways behind causally read text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyorder.models.config import ModelConfig, parse_hf, refuse, unlike
from anyorder.models.spec import FamilySpec
from anyorder.models.weights import nemotron_names


def parse(raw: Mapping[str, Any]) -> ModelConfig:
    """config.json -> ModelConfig; errors as in `parse_hf`."""
    refuse(unlike(raw, dlm_paradigm=("bidirectional", "block_diff", None)))
    return parse_hf(raw)


SPEC = FamilySpec(
    name="nemotron_labs_diffusion",
    title="Nemotron-Labs-Diffusion 3B/8B/14B, text",
    architectures=("NemotronLabsDiffusionModel",),
    model_types=("nemotron_labs_diffusion",),
    attention="causal",
    blocks_both_ways=True,
    blocks="seeded",
    shift=False,  # but for the first slot of a block
    mask_token_id=100,
    block_length=32,
    threshold=0.9,
    block_keys=("block_size",),
    decoder="block",
    modes=("block", "causal"),
    policy="threshold",
    caches=("none", "block"),
    confidence="raw",
    infill=False,
    source="nvidia/Nemotron-Labs-Diffusion-8B modeling file (its `generate` with causal context) and config.json",
    parse=parse,
    weight_names=nemotron_names,
)
