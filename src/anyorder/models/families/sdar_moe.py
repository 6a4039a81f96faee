"""SDAR-MoE: Qwen3-MoE adapted to block diffusion as SDAR adapts Qwen3."""

from __future__ import annotations

from dataclasses import replace

from anyorder.models.families import sdar
from anyorder.models.families.qwen3_moe import parse

SPEC = replace(
    sdar.SPEC,
    name="sdar_moe",
    title="SDAR 30B-A3B",
    architectures=("SDARMoeForCausalLM",),
    model_types=("sdar_moe",),
    source="JetLM/SDAR-30B-A3B modeling_sdar_moe.py and config.json; arXiv:2510.06303",
    parse=parse,
)
