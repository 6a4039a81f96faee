"""Stable-DiffCoder 8B: Seed-Coder's Llama adapted to block diffusion (blocks of 4); its model_type says `llama`."""

from __future__ import annotations

from anyorder.models.spec import FamilySpec

SPEC = FamilySpec(
    name="stable_diffcoder",
    title="Stable-DiffCoder 8B Base/Instruct",
    architectures=("StableDiffcoderForCausalLM",),
    model_types=("stable_diffcoder",),
    attention="block",
    shift=False,
    mask_token_id=5,
    block_length=4,
    threshold=0.95,
    block_keys=("block_length", "block_size"),
    decoder="block",
    modes=("block",),
    policy="threshold",
    caches=("none", "block"),
    confidence="raw",
    infill=False,
    source="ByteDance-Seed/Stable-DiffCoder-8B modeling file (its `generate`) and config.json",
)
