"""BD3-LM: MDLM's network trained block by block; finished blocks never look at later ones."""

from __future__ import annotations

from anyorder.models.dit.config import dit_names, parse_dit
from anyorder.models.spec import FamilySpec

SPEC = FamilySpec(
    name="bd3lm",
    title="BD3-LM, blocks of 4, 8, 16 and 1024 (OpenWebText)",
    architectures=("BD3LM",),
    model_types=("bd3lm",),
    attention="block",
    shift=False,
    mask_is_last=True,
    unprompted="bos",
    block_length=4,
    block_keys=("block_size",),
    decoder="block",
    modes=("block",),
    policy="first_hitting",
    caches=("none", "block"),
    confidence="filtered",
    nucleus="below",
    slides=True,
    infill=False,
    source="kuleshov-group/bd3lms models/hf and diffusion.py; arXiv:2503.09573",
    parse=parse_dit,
    weight_names=dit_names,
    unused=("sampling_eps_min", "sampling_eps_max"),
)
