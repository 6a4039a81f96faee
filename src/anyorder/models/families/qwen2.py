"""Qwen2 and Qwen2.5: Llama with biases on q, k and v; autoregressive."""

from __future__ import annotations

from functools import partial

from anyorder.models.config import parse_hf
from anyorder.models.spec import FamilySpec

SPEC = FamilySpec(
    name="qwen2",
    title="Qwen2, Qwen2.5 (autoregressive)",
    architectures=("Qwen2ForCausalLM",),
    model_types=("qwen2",),
    attention="causal",
    shift=True,
    spare_tokens=("[PAD151665]",),
    stop_tokens=("<|im_end|>",),
    decoder="causal",
    modes=("causal", "block"),
    policy="sequential",
    caches=("none", "block"),
    confidence="filtered",
    infill=False,
    source="transformers Qwen2ForCausalLM; GGUF files name the unused rows [PAD...]",
    parse=partial(parse_hf, qkv_bias=True),
)
