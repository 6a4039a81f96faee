"""MDLM: a small diffusion transformer over GPT-2's vocabulary, trained to fill masks anywhere."""

from __future__ import annotations

from anyorder.models.dit.config import dit_names, parse_dit
from anyorder.models.spec import FamilySpec

SPEC = FamilySpec(
    name="mdlm",
    title="MDLM (OpenWebText)",
    architectures=("MDLM",),
    model_types=("mdlm",),
    attention="bidirectional",
    shift=False,
    mask_is_last=True,
    unprompted="nothing",
    decoder="full",
    modes=("full",),
    policy="ddpm_cache",
    caches=("none", "prefix", "dual"),
    confidence="filtered",
    infill=True,
    source="kuleshov-group/mdlm models/dit.py and diffusion.py; arXiv:2406.07524",
    parse=parse_dit,
    weight_names=dit_names,
)
