"""Models of every family, small enough to run hundreds of times, with random weights and nothing on disk."""

from __future__ import annotations

import functools
import zlib

import torch

from anyorder.models.config import ModelConfig
from anyorder.models.families import FAMILIES
from anyorder.models.loaded import LoadedModel
from anyorder.models.moe import MoeConfig
from anyorder.models.transformer import Transformer

VOCABULARY = 24
MASK = 20
STOPS = (2, 3)
CONTEXT = 96
ANY_ORDER = ("llada", "dream", "sdar", "fast_dllm_v2", "llama", "llada2_moe")
BLOCK_LENGTHS = {
    "sdar": 4, "fast_dllm_v2": 8, "llada2_moe": 8, "stable_diffcoder": 4, "efficient_dlm": 8,
    "nemotron_labs_diffusion": 8, "wedlm": 8,
}  # fmt: skip
EXPERTS = MoeConfig(
    num_experts=6, top_k=2, expert_size=8, layers=(False, True), score="sigmoid", normalise=True, scaling=2.5,
    bias=True, num_groups=3, top_groups=2, shared_size=8,
)  # fmt: skip


@functools.cache
def tiny(family: str, *, dtype: torch.dtype = torch.float64, mask_token_id: int | None = MASK) -> LoadedModel:
    """A random network; its mask token and its stop tokens are as likely as any other."""
    config = ModelConfig(
        hidden_size=16, intermediate_size=24, num_layers=2, num_heads=2, num_kv_heads=1, head_dim=8,
        vocab_size=VOCABULARY, max_context=CONTEXT, rms_norm_eps=1e-5,
        rotary_dim=4 if family == "llada2_moe" else None, moe=EXPERTS if family == "llada2_moe" else None,
    )  # fmt: skip
    network = Transformer(config)
    generator = torch.Generator().manual_seed(zlib.crc32(family.encode()))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * (0.5 if parameter.dim() > 1 else 1))
    return LoadedModel(
        network=network.to(dtype).eval(),
        config=config,
        spec=FAMILIES[family],
        tokenizer=None,
        mask_token_id=mask_token_id,
        stop_ids=STOPS,
        block_length=BLOCK_LENGTHS.get(family),
        source=f"tiny {family}",
    )
