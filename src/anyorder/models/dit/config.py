"""Config of MDLM and BD3-LM, and where their published tensors lie."""

from __future__ import annotations

from dataclasses import dataclass

from anyorder.models.config import ModelConfig, RawConfig, refuse, required, unlike
from anyorder.models.weights import Place

NORM_EPS = 1e-5
MLP_RATIO = 4
SIGMA_FEATURES = 256
"""Sines and cosines that the noise level is written in."""


@dataclass(frozen=True, kw_only=True)
class DiTConfig(ModelConfig):
    """Sizes of a `DiT`; `rms_norm_eps` is that of its layer norms."""

    cond_dim: int
    """Width of the vector that the noise level becomes."""


def parse_dit(raw: RawConfig) -> DiTConfig:
    """Config with MDLM's key names.

    Raises:
        ModelError: a size is missing or impossible, or a setting is not supported.
    """
    faults = unlike(
        raw,
        time_conditioning=(False, None),
        adaln=(True, None),
        causal=(False, None),
        cross_attn=(True, None),
        quantization_config=(None,),
    )
    hidden, heads = required(raw, "hidden_dim"), required(raw, "n_heads")
    if hidden % heads:
        faults.append(f"hidden_dim {hidden} is not divisible by {heads} heads")
    refuse(faults)
    return DiTConfig(
        hidden_size=hidden,
        intermediate_size=MLP_RATIO * hidden,
        num_layers=required(raw, "n_blocks"),
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=hidden // heads,
        vocab_size=required(raw, "vocab_size"),
        max_context=required(raw, "model_length"),
        rms_norm_eps=NORM_EPS,
        cond_dim=required(raw, "cond_dim"),
    )


def dit_names(config: ModelConfig) -> dict[str, Place]:
    """Published name -> place in `DiT`."""
    assert isinstance(config, DiTConfig)
    hidden, inner, cond, vocab = config.hidden_size, config.intermediate_size, config.cond_dim, config.vocab_size
    last = "backbone.output_layer"
    places = {
        "backbone.vocab_embed.embedding": Place("embed.weight", 0, (vocab, hidden)),
        **_product("backbone.sigma_map.mlp.0", "sigma_in", SIGMA_FEATURES, cond),
        **_product("backbone.sigma_map.mlp.2", "sigma_out", cond, cond),
        f"{last}.norm_final.weight": Place("norm", 0, (hidden,)),
        **_product(f"{last}.adaLN_modulation", "modulation", cond, 2 * hidden),
        **_product(f"{last}.linear", "output", hidden, vocab),
    }
    for index in range(config.num_layers):
        block, ours = f"backbone.blocks.{index}", f"layers.{index}"
        places |= {
            f"{block}.norm1.weight": Place(f"{ours}.attention_norm", 0, (hidden,)),
            f"{block}.attn_qkv.weight": Place(f"{ours}.qkv.weight", 0, (3 * hidden, hidden)),
            f"{block}.attn_out.weight": Place(f"{ours}.out.weight", 0, (hidden, hidden)),
            f"{block}.norm2.weight": Place(f"{ours}.mlp_norm", 0, (hidden,)),
            **_product(f"{block}.mlp.0", f"{ours}.up", hidden, inner),
            **_product(f"{block}.mlp.2", f"{ours}.down", inner, hidden),
            **_product(f"{block}.adaLN_modulation", f"{ours}.modulation", cond, 6 * hidden),
        }
    return places


def _product(published: str, ours: str, in_features: int, out_features: int) -> dict[str, Place]:
    return {
        f"{published}.weight": Place(f"{ours}.weight", 0, (out_features, in_features)),
        f"{published}.bias": Place(f"{ours}.bias", 0, (out_features,)),
    }
