"""LLaDA 8B dense: OLMo's Llama block trained as a masked diffusion model over the whole sequence."""

from __future__ import annotations

from anyorder.models.config import parse_olmo
from anyorder.models.spec import FamilySpec
from anyorder.models.weights import olmo_names

SPEC = FamilySpec(
    name="llada",
    title="LLaDA 8B Base/Instruct, LLaDA 1.5, iLLaDA",
    architectures=("LLaDAModelLM",),
    model_types=("llada",),
    attention="bidirectional",
    shift=False,
    mask_token="<|mdm_mask|>",
    mask_token_id=126336,  # iLLaDA: 5, named by its config.json
    stop_tokens=("<|endoftext|>", "<|eot_id|>"),
    block_length=32,
    decoder="full",
    modes=("full",),
    policy="low_confidence",
    caches=("none", "prefix", "dual"),
    confidence="raw",
    infill=True,
    source="ML-GSAI/LLaDA generate.py and config.json of LLaDA-8B; caches: Fast-dLLM, arXiv:2505.22618",
    parse=parse_olmo,
    weight_names=olmo_names,
)
