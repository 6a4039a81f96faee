"""Where each published tensor lives in our `Transformer`: q, k, v are rows of one matrix, and so are gate and up."""

from __future__ import annotations

from dataclasses import dataclass

from anyorder.models.config import ModelConfig


@dataclass(frozen=True)
class Place:
    """A published tensor is `parameter[start : start + shape[0]]`."""

    parameter: str
    start: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class LayerNames:
    """Names of one layer's tensors, relative to the layer's prefix and without `.weight`."""

    attention_norm: str
    q: str
    k: str
    v: str
    o: str
    q_norm: str
    k_norm: str
    mlp_norm: str
    gate: str
    up: str
    down: str


HF_LAYER = LayerNames(
    attention_norm="input_layernorm",
    q="self_attn.q_proj",
    k="self_attn.k_proj",
    v="self_attn.v_proj",
    o="self_attn.o_proj",
    q_norm="self_attn.q_norm",
    k_norm="self_attn.k_norm",
    mlp_norm="post_attention_layernorm",
    gate="mlp.gate_proj",
    up="mlp.up_proj",
    down="mlp.down_proj",
)
OLMO_LAYER = LayerNames(
    attention_norm="attn_norm",
    q="q_proj",
    k="k_proj",
    v="v_proj",
    o="attn_out",
    q_norm="q_norm",
    k_norm="k_norm",
    mlp_norm="ff_norm",
    gate="ff_proj",
    up="up_proj",
    down="ff_out",
)


def hf_names(config: ModelConfig) -> dict[str, Place]:
    """Published name -> place, for Hugging Face Llama and Qwen names."""
    return _names(config, "model.layers", HF_LAYER, "model.embed_tokens", "model.norm", "lm_head")


def olmo_names(config: ModelConfig) -> dict[str, Place]:
    """Published name -> place, for LLaDA (`ff_out` is the down projection in a block and the head outside)."""
    root = "model.transformer"
    return _names(config, f"{root}.blocks", OLMO_LAYER, f"{root}.wte", f"{root}.ln_f", f"{root}.ff_out")


def _names(config: ModelConfig, layers: str, names: LayerNames, embed: str, norm: str, head: str) -> dict[str, Place]:
    table = (config.vocab_size, config.hidden_size)
    places = {
        f"{embed}.weight": Place("embed.weight", 0, table),
        f"{norm}.weight": Place("norm", 0, (config.hidden_size,)),
    }
    if not config.tie_word_embeddings:
        places[f"{head}.weight"] = Place("output.weight", 0, table)
    for index in range(config.num_layers):
        places |= {
            f"{layers}.{index}.{name}": Place(f"layers.{index}.{place.parameter}", place.start, place.shape)
            for name, place in _layer(config, names).items()
        }
    return places


def _layer(config: ModelConfig, names: LayerNames) -> dict[str, Place]:
    hidden, inner, q, kv = config.hidden_size, config.intermediate_size, config.query_size, config.kv_size
    projections = ((names.q, 0, q), (names.k, q, kv), (names.v, q + kv, kv))
    places = {
        f"{names.attention_norm}.weight": Place("attention_norm", 0, (hidden,)),
        f"{names.mlp_norm}.weight": Place("mlp_norm", 0, (hidden,)),
        f"{names.o}.weight": Place("out.weight", 0, (hidden, q)),
        f"{names.gate}.weight": Place("gate_up.weight", 0, (inner, hidden)),
        f"{names.up}.weight": Place("gate_up.weight", inner, (inner, hidden)),
        f"{names.down}.weight": Place("down.weight", 0, (hidden, inner)),
    }
    places |= {f"{name}.weight": Place("qkv.weight", start, (size, hidden)) for name, start, size in projections}
    if config.qkv_bias:
        places |= {f"{name}.bias": Place("qkv.bias", start, (size,)) for name, start, size in projections}
    if config.qk_norm:
        places[f"{names.q_norm}.weight"] = Place("query_norm", 0, (config.head_dim,))
        places[f"{names.k_norm}.weight"] = Place("key_norm", 0, (config.head_dim,))
    return places
