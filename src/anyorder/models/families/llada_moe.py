"""LLaDA-MoE 7B-A1B: OLMoE's experts under LLaDA's training; its config.json calls itself `llada`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyorder.models.config import ModelConfig, parse_hf, refuse, required, unlike
from anyorder.models.moe import MoeConfig
from anyorder.models.spec import FamilySpec
from anyorder.models.weights import llada_moe_names


def parse(raw: Mapping[str, Any]) -> ModelConfig:
    """config.json -> ModelConfig; errors as in `parse_hf`."""
    refuse(
        unlike(
            raw,
            moe_router_score_function=("softmax", "sigmoid", None),
            router_num_group=(1, None),
            router_topk_group=(1, None),
            routed_scaling_factor=(1, None),
            clip_qkv=(None,),
        )
    )
    return parse_hf(
        raw, qk_norm=bool(raw.get("qk_layernorm")), dense_size=required(raw, "dense_intermediate_size"), moe=_moe(raw)
    )


def _moe(raw: Mapping[str, Any]) -> MoeConfig:
    """`norm_topk_prob` is not read: the published code never normalises."""
    layers: Any = required(raw, "moe_layer_freq")
    if not isinstance(layers, list) or not set(layers) <= {0, 1}:
        refuse([f"moe_layer_freq must be a list with 1 for every layer with experts and 0 else, got {layers!r}"])
    return MoeConfig(
        num_experts=required(raw, "num_experts"),
        top_k=required(raw, "num_experts_per_tok"),
        expert_size=required(raw, "expert_intermediate_size"),
        layers=tuple(map(bool, layers)),
        score="sigmoid" if raw.get("moe_router_score_function") == "sigmoid" else "softmax",
        normalise=False,
        bias=bool(raw.get("moe_router_enable_expert_bias")),
        biased_weights=True,
        shared_size=raw.get("shared_expert_intermediate_size") or 0,
    )


SPEC = FamilySpec(
    name="llada_moe",
    title="LLaDA-MoE 7B-A1B Base/Instruct",
    architectures=("LLaDAMoEModelLM", "LLaDAMoEModel"),
    model_types=("lladamoe", "llada_moe"),
    attention="bidirectional",
    shift=False,
    mask_token="<|mask|>",
    mask_token_id=156895,
    stop_tokens=("<|endoftext|>", "<|role_end|>"),
    block_length=32,
    decoder="full",
    modes=("full",),
    policy="low_confidence",
    caches=("none", "prefix", "dual"),
    confidence="raw",
    infill=True,
    source="inclusionAI/LLaDA-MoE-7B-A1B modeling_lladamoe.py and config.json; blocks of 32: dInfer, arXiv:2510.08666",
    parse=parse,
    weight_names=llada_moe_names,
)
