"""Qwen3 dense: Llama with a norm on every query and key head; autoregressive."""

from __future__ import annotations

from functools import partial

from anyorder.models.config import parse_hf
from anyorder.models.spec import FamilySpec

SPEC = FamilySpec(
    name="qwen3",
    title="Qwen3 dense (autoregressive)",
    architectures=("Qwen3ForCausalLM",),
    model_types=("qwen3",),
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
    source="transformers Qwen3ForCausalLM; GGUF files name the unused rows [PAD...]",
    parse=partial(parse_hf, qk_norm=True),
)
