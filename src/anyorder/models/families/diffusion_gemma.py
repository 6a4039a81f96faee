"""DiffusionGemma: canvases of noise behind text that the same weights read causally."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyorder.models.config import refuse, unlike
from anyorder.models.gemma.config import (
    FULL,
    FULL_EVERY,
    SLIDING,
    GemmaConfig,
    gemma_image_shapes,
    gemma_names,
    parse_gemma,
)
from anyorder.models.spec import FamilySpec

FULL_SIZES = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}
"""Sizes of layers that see everything: by layer, as transformers 5.24 writes them, and as published."""


def parse(raw: Mapping[str, Any]) -> GemmaConfig:
    """config.json, as published or as transformers writes it today -> GemmaConfig; errors as in `parse_gemma`."""
    refuse(unlike(raw, quantization_config=(None,)))
    text = raw.get("text_config")
    if not isinstance(text, dict) or not isinstance(text.get("num_hidden_layers"), int):
        return parse_gemma(raw)
    kinds = _kinds(text)
    return parse_gemma({**raw, "text_config": {**text, "layer_types": kinds, **_full_sizes(text, kinds)}})


def _kinds(text: Mapping[str, Any]) -> list[str]:
    """What each layer sees; the last one sees everything, whatever is said of it."""
    number = text["num_hidden_layers"]
    kinds = text.get("layer_types") or [SLIDING if (i + 1) % FULL_EVERY else FULL for i in range(number)]
    return [*kinds[:-1], FULL] if kinds[-1] == SLIDING else kinds


def _full_sizes(text: Mapping[str, Any], kinds: list[str]) -> dict[str, Any]:
    layers: dict[str, dict[str, Any]] = text.get("per_layer_config") or {}
    if not layers:
        return {}
    sizes = next(iter(layers.values()))
    full = {str(index) for index, kind in enumerate(kinds) if kind == FULL}
    alike = all(other == sizes for other in layers.values())
    if {str(index) for index in layers} != full or not alike or not sizes.keys() <= FULL_SIZES.keys():
        refuse([f"per_layer_config={layers!r} (supported: the same {' and '.join(FULL_SIZES)} of all full layers)"])
    return {FULL_SIZES[name]: value for name, value in sizes.items()}


SPEC = FamilySpec(
    name="diffusion_gemma",
    title="DiffusionGemma 26B-A4B",
    architectures=("DiffusionGemmaForBlockDiffusion",),
    model_types=("diffusion_gemma",),
    attention="causal",
    blocks_both_ways=True,
    shift=True,
    noise="uniform",
    stop_tokens=("<turn|>",),
    block_length=256,
    block_keys=("canvas_length",),
    decoder="block",
    modes=("block", "causal"),
    policy="renoise",
    caches=("none", "block"),
    confidence="filtered",
    filter_order="top_k_first",
    infill=False,
    source="transformers DiffusionGemmaForBlockDiffusion and its generation config; arXiv:2608.00146",
    parse=parse,
    weight_names=gemma_names,
    image_shapes=gemma_image_shapes,
)
