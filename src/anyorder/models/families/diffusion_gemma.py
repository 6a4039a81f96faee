"""DiffusionGemma: canvases of noise behind text that the same weights read causally."""

from __future__ import annotations

from anyorder.models.gemma.config import gemma_image_shapes, gemma_names, parse_gemma
from anyorder.models.spec import FamilySpec

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
    parse=parse_gemma,
    weight_names=gemma_names,
    image_shapes=gemma_image_shapes,
)
