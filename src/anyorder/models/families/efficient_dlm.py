"""Efficient-DLM: Qwen3 adapted to block diffusion (bidirectional inside, logits not shifted); may say `qwen3`."""

from __future__ import annotations

from functools import partial

from anyorder.models.config import parse_hf
from anyorder.models.spec import FamilySpec

SPEC = FamilySpec(
    name="efficient_dlm",
    title="Efficient-DLM 4B/8B",
    architectures=("EfficientDLM",),
    model_types=("edlm",),
    attention="block",
    shift=False,
    mask_token_id=151662,
    stop_tokens=("<|im_end|>",),
    block_length=32,  # of the model card's `generate`; trained with 64, and meant for other lengths, too
    threshold=0.9,
    decoder="block",
    modes=("block",),
    policy="threshold",
    caches=("none", "block"),
    confidence="raw",
    infill=False,
    source="arXiv:2512.14067 (attention, blocks from the text's beginning, no shift) and the model card's `generate`",
    parse=partial(parse_hf, qk_norm=True),
)
