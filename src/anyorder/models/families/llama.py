"""Llama and what shares its architecture (SmolLM2): autoregressive, used as a baseline and as a base to convert."""

from __future__ import annotations

from anyorder.models.spec import FamilySpec

SPEC = FamilySpec(
    name="llama",
    title="Llama, SmolLM2 (autoregressive)",
    architectures=("LlamaForCausalLM",),
    model_types=("llama",),
    attention="causal",
    shift=True,
    spare_tokens=("<reponame>", "<|reserved_special_token_0|>"),
    stop_tokens=("<|im_end|>", "<|eot_id|>"),
    decoder="causal",
    modes=("causal", "block"),
    policy="sequential",
    caches=("none", "block"),
    confidence="filtered",
    infill=False,
    source="transformers LlamaForCausalLM; SmolLM2 tokenizer (id 4 is <reponame>)",
)
