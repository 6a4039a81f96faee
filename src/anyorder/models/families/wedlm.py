"""WeDLM: Qwen2.5 or Qwen3 that keeps causal attention; masks are read behind everything that is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyorder.models.config import ModelConfig, parse_hf
from anyorder.models.spec import FamilySpec


def parse(raw: Mapping[str, Any]) -> ModelConfig:
    """config.json -> ModelConfig; errors as in `parse_hf`. What a config leaves out is as in Qwen2.5."""
    bias = raw.get("attention_bias") is not False
    return parse_hf({**raw, "attention_bias": False}, qkv_bias=bias, qk_norm=bool(raw.get("qk_norm")))


SPEC = FamilySpec(
    name="wedlm",
    title="WeDLM 7B/8B Base/Instruct",
    architectures=("WeDLMForCausalLM",),
    model_types=("wedlm",),
    attention="causal",
    blocks="reordered",
    shift=False,
    mask_token_id=151665,  # config.json may name another
    stop_tokens=("<|im_end|>", "<|endoftext|>"),
    block_length=16,
    block_keys=("wedlm_window_size",),
    decoder="block",
    modes=("block",),
    policy="entropy_threshold",
    caches=("none", "block"),
    confidence="raw",
    filter_order="before_temperature",
    infill=False,
    source="tencent/WeDLM wedlm/engine (wedlm_decoder.py, sampler.py); blocks: hf_compat/modeling_wedlm.py",
    parse=parse,
)
