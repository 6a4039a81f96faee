"""Qwen3-MoE: Qwen3 with experts; autoregressive, and the base of SDAR-MoE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyorder.models.config import ModelConfig, parse_hf, required
from anyorder.models.moe import MoeConfig
from anyorder.models.spec import FamilySpec


def parse(raw: Mapping[str, Any]) -> ModelConfig:
    """config.json -> ModelConfig; errors as in `parse_hf`."""
    step = raw.get("decoder_sparse_step") or 1
    dense: list[int] = raw.get("mlp_only_layers") or []
    moe = MoeConfig(
        num_experts=required(raw, "num_experts" if "num_experts" in raw else "num_local_experts"),  # transformers 5
        top_k=required(raw, "num_experts_per_tok"),
        expert_size=required(raw, "moe_intermediate_size"),
        layers=tuple(
            index not in dense and (index + 1) % step == 0 for index in range(required(raw, "num_hidden_layers"))
        ),
        score="softmax",
        normalise=bool(raw.get("norm_topk_prob", False)),
    )
    return parse_hf(raw, qk_norm=True, moe=moe)


SPEC = FamilySpec(
    name="qwen3_moe",
    title="Qwen3 mixture of experts (autoregressive)",
    architectures=("Qwen3MoeForCausalLM",),
    model_types=("qwen3_moe",),
    attention="causal",
    shift=True,
    spare_tokens=("[PAD151669]",),
    stop_tokens=("<|im_end|>",),
    decoder="causal",
    modes=("causal", "block"),
    policy="sequential",
    caches=("none", "block"),
    confidence="filtered",
    infill=False,
    source="transformers Qwen3MoeForCausalLM",
    parse=parse,
)
