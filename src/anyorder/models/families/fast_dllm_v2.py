"""Fast-dLLM v2: Qwen2.5-Instruct adapted to block diffusion (blocks of 32, bidirectional inside, shifted logits)."""

from __future__ import annotations

from functools import partial

from anyorder.models.config import parse_hf
from anyorder.models.spec import FamilySpec

SPEC = FamilySpec(
    name="fast_dllm_v2",
    title="Fast-dLLM v2 1.5B/7B",
    architectures=("Fast_dLLM_QwenForCausalLM",),
    model_types=("Fast_dLLM_Qwen",),
    attention="block",
    shift=True,
    mask_token="|<MASK>|",
    mask_token_id=151665,
    stop_tokens=("<|im_end|>",),
    block_length=32,
    sub_block_length=8,
    strict_threshold=True,
    block_keys=("bd_size",),
    decoder="block",
    modes=("block", "causal"),
    policy="threshold",
    caches=("none", "block", "sub_block"),
    confidence="raw",
    infill=False,
    source="Fast_dLLM_v2 modeling.py and config.json; arXiv:2509.26328",
    parse=partial(parse_hf, qkv_bias=True),
)
