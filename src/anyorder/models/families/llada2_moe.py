"""LLaDA 2.0, 2.1 and 2.2, mini and flash: Ling 2's mixture of experts adapted to block diffusion (blocks of 32)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyorder.models.config import ModelConfig, parse_hf, refuse, required, unlike
from anyorder.models.moe import MoeConfig
from anyorder.models.spec import FamilySpec
from anyorder.models.weights import bailing_names


def parse(raw: Mapping[str, Any]) -> ModelConfig:
    """config.json -> ModelConfig; errors as in `parse_hf`."""
    refuse(
        unlike(
            raw,
            score_function=("sigmoid", None),
            use_bias=(False, None),
            use_qkv_bias=(False, None),
            use_qk_norm=(True, None),
            use_rmsnorm=(True, None),
            norm_head=(False, None),
            using_split_qkv_in_self_attention=(False, None),
        )
    )
    return parse_hf(raw, qk_norm=True, partial_rotary=True, moe=_moe(raw))


def _moe(raw: Mapping[str, Any]) -> MoeConfig:
    top_k, size = required(raw, "num_experts_per_tok"), required(raw, "moe_intermediate_size")
    dense = raw.get("first_k_dense_replace") or 0
    return MoeConfig(
        num_experts=required(raw, "num_experts"),
        top_k=top_k,
        expert_size=size,
        layers=tuple(index >= dense for index in range(required(raw, "num_hidden_layers"))),
        score="sigmoid",
        normalise=top_k > 1,
        scaling=float(raw.get("routed_scaling_factor") or 1),
        bias=raw.get("moe_router_enable_expert_bias") is not False,
        num_groups=raw.get("n_group") or 1,
        top_groups=raw.get("topk_group") or 1,
        block_experts=raw.get("expert_capacity") or None,
        block_length=raw.get("block_size") or 32,
        shared_size=size * (raw.get("num_shared_experts") or 0),
    )


SPEC = FamilySpec(
    name="llada2_moe",
    title="LLaDA2.0, LLaDA2.1 and LLaDA2.2, mini and flash",
    architectures=("LLaDA2MoeModelLM",),
    model_types=("llada2_moe",),
    attention="block",
    shift=False,
    mask_token="<|mask|>",
    mask_token_id=156895,
    stop_tokens=("<|endoftext|>", "<|role_end|>"),
    block_length=32,
    threshold=0.95,
    strict_threshold=True,
    block_keys=("block_length", "block_size"),
    decoder="block",
    modes=("block",),
    policy="low_confidence_dynamic",
    caches=("none", "block"),
    confidence="raw",
    edits=True,
    infill=False,
    source="inclusionAI/LLaDA2.X modeling_llada2_moe.py and config.json; arXiv:2512.15745, arXiv:2602.08676",
    parse=parse,
    weight_names=bailing_names,
)
