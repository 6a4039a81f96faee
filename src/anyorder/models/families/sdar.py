"""SDAR dense: Qwen3 adapted to block diffusion (blocks of 4 by default, bidirectional inside, logits not shifted)."""

from __future__ import annotations

from functools import partial

from anyorder.models.config import parse_hf
from anyorder.models.spec import FamilySpec

SPEC = FamilySpec(
    name="sdar",
    title="SDAR 1.7B/4B/8B, TraDo",
    architectures=("SDARForCausalLM",),
    model_types=("sdar",),
    attention="block",
    shift=False,
    mask_token="<|MASK|>",
    mask_token_id=151669,  # not in the published config.json
    stop_tokens=("<|im_end|>",),
    block_length=4,
    strict_threshold=True,
    block_keys=("block_size", "block_length"),
    decoder="block",
    modes=("block",),
    policy="low_confidence_dynamic",
    caches=("none", "block"),
    confidence="filtered",
    filter_order="top_k_first",
    infill=False,
    source="JetAstra/SDAR generate.py and modeling_sdar.py; arXiv:2510.06303",
    parse=partial(parse_hf, qk_norm=True),
)
