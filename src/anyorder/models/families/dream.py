"""Dream 7B, Dream-Coder and DiffuCoder: Qwen2.5 weights without a causal mask; logits stay shifted by one."""

from __future__ import annotations

from functools import partial

from anyorder.models.config import parse_hf
from anyorder.models.spec import FamilySpec

SPEC = FamilySpec(
    name="dream",
    title="Dream 7B, Dream-Coder, DiffuCoder",
    architectures=("DreamModel",),
    model_types=("Dream",),
    attention="bidirectional",
    shift=True,
    mask_token="<|mask|>",
    mask_token_id=151666,
    foreign_token="<|expand|>",  # DreamOn, arXiv:2602.01326: a mask becomes two, or none
    stop_tokens=("<|endoftext|>", "<|im_end|>"),
    decoder="full",
    modes=("full",),
    policy="entropy",
    caches=("none", "prefix", "dual"),
    confidence="filtered",
    infill=True,
    source="DreamLM/Dream generation_utils.py and config.json; apple/DiffuCoder config.json",
    parse=partial(parse_hf, qkv_bias=True),
)
