"""Config of DiffusionGemma's text stack, and where its published tensors lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anyorder.errors import ModelError
from anyorder.models.config import ModelConfig, RawConfig, refuse, required, unlike
from anyorder.models.gemma.vision import VisionConfig, parse_vision, vision_shapes
from anyorder.models.moe.config import MoeConfig
from anyorder.models.weights import Place

FULL, SLIDING = "full_attention", "sliding_attention"
FULL_EVERY = 6
"""Where the config names no layer types, every sixth layer sees everything."""
FULL_SIZES = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}
"""Sizes of layers that see everything: by layer, as transformers 5.24 writes them, and as published."""


@dataclass(frozen=True, kw_only=True)
class GemmaConfig(ModelConfig):
    """Sizes of a `DiffusionGemma`; head sizes of the base class are those of sliding layers, as is `rope_theta`."""

    full: tuple[bool, ...]
    """Which layers see everything; the others see `window` columns."""
    window: int
    full_head_dim: int
    full_kv_heads: int
    full_rope_theta: float
    full_rotary_dim: int
    """Numbers of a full layer's head that turn; the others stand still."""
    softcap: float
    vision: VisionConfig | None = None
    """None: it reads text only."""

    def kv_shape(self, layer: int) -> tuple[int, int]:
        """See `ModelConfig.kv_shape`."""
        return (self.full_kv_heads, self.full_head_dim) if self.full[layer] else (self.num_kv_heads, self.head_dim)

    def sliding_window(self, layer: int) -> int | None:
        """See `ModelConfig.sliding_window`."""
        return None if self.full[layer] else self.window


def parse_gemma(raw: RawConfig) -> GemmaConfig:
    """Config of the whole model, as published or as transformers writes it today.

    Raises:
        ModelError: a size is missing or impossible, or a setting is not supported.
    """
    refuse(unlike(raw, quantization_config=(None,)))
    text = raw.get("text_config")
    if not isinstance(text, dict):
        raise ModelError("config.json lacks 'text_config'; is the file complete?")
    text = {key: value for key, value in text.items() if isinstance(key, str)}
    layers, heads = required(text, "num_hidden_layers"), required(text, "num_attention_heads")
    kinds = _kinds(text, layers)
    text |= _full_sizes(text, kinds)
    rope = text.get("rope_parameters") or {}
    sliding, full = rope.get(SLIDING) or {}, rope.get(FULL) or {}
    refuse(_faults(text, kinds, layers, sliding, full))
    head_dim, full_head_dim = required(text, "head_dim"), text.get("global_head_dim") or 512
    kv_heads = required(text, "num_key_value_heads")
    turned = int(full.get("partial_rotary_factor", 0.25) * full_head_dim // 2) * 2
    return GemmaConfig(
        hidden_size=required(text, "hidden_size"),
        intermediate_size=required(text, "intermediate_size"),
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=required(text, "vocab_size"),
        max_context=required(text, "max_position_embeddings"),
        rms_norm_eps=float(text.get("rms_norm_eps", 1e-6)),
        rope_theta=float(sliding.get("rope_theta", 1e4)),
        tie_word_embeddings=True,
        full=tuple(kind == FULL for kind in kinds),
        window=required(text, "sliding_window"),
        full_head_dim=full_head_dim,
        full_kv_heads=text.get("num_global_key_value_heads") or kv_heads,
        full_rope_theta=float(full.get("rope_theta", 1e6)),
        full_rotary_dim=turned,
        moe=_moe(text, layers),
        softcap=float(text.get("final_logit_softcapping") or 30.0),
        vision=parse_vision(raw),
    )


def _kinds(text: RawConfig, layers: int) -> list[str]:
    """What each layer sees; the last one sees everything, whatever is said of it."""
    kinds = text.get("layer_types") or [SLIDING if (i + 1) % FULL_EVERY else FULL for i in range(layers)]
    return [*kinds[:-1], FULL] if kinds[-1] == SLIDING else kinds


def _full_sizes(text: RawConfig, kinds: list[str]) -> dict[str, Any]:
    """The sizes of full layers under their published names, where they are said by layer."""
    layers: dict[str, dict[str, Any]] = text.get("per_layer_config") or {}
    if not layers:
        return {}
    sizes = next(iter(layers.values()))
    full = {str(index) for index, kind in enumerate(kinds) if kind == FULL}
    alike = all(other == sizes for other in layers.values())
    if {str(index) for index in layers} != full or not alike or not sizes.keys() <= FULL_SIZES.keys():
        refuse([f"per_layer_config={layers!r} (supported: the same {' and '.join(FULL_SIZES)} of all full layers)"])
    return {FULL_SIZES[name]: value for name, value in sizes.items()}


def _moe(text: RawConfig, layers: int) -> MoeConfig:
    """Experts in every layer, beside its dense MLP."""
    return MoeConfig(
        num_experts=required(text, "num_experts"),
        top_k=required(text, "top_k_experts"),
        expert_size=required(text, "moe_intermediate_size"),
        layers=(True,) * layers,
        score="softmax",
        normalise=True,
    )


def _faults(
    text: RawConfig, kinds: list[str], layers: int, sliding: Mapping[str, Any], full: Mapping[str, Any]
) -> list[str]:
    faults = unlike(
        text,
        attention_bias=(False, None),
        hidden_activation=("gelu_pytorch_tanh", None),
        tie_word_embeddings=(True, None),
        use_bidirectional_attention=("vision", None),
        quantization_config=(None,),
    )
    if other := sorted(set(kinds) - {FULL, SLIDING}):
        faults.append(f"layer_types {', '.join(other)}")
    if len(kinds) != layers:
        faults.append(f"{len(kinds)} layer_types for {layers} layers")
    faults += [f"sliding layers: {fault}" for fault in unlike(sliding, rope_type=("default", None))]
    return faults + [
        f"full layers: {fault}" for fault in unlike(full, rope_type=("proportional", None), factor=(1, 1.0, None))
    ]


def gemma_names(config: ModelConfig) -> dict[str, Place]:
    """Published name -> place in `DiffusionGemma`; encoder and decoder share all but a number per layer."""
    assert isinstance(config, GemmaConfig)
    hidden, inner = config.hidden_size, config.intermediate_size
    told = "model.decoder.self_conditioning"
    places = {
        "model.decoder.embed_tokens.weight": Place("embed.weight", 0, (config.vocab_size, hidden)),
        "model.decoder.norm.weight": Place("norm", 0, (hidden,)),
        f"{told}.pre_norm.weight": Place("conditioning.norm", 0, (hidden,)),
        **_mlp(told, "conditioning", hidden, inner),
    }
    for index in range(config.num_layers):
        layer = f"model.decoder.layers.{index}"
        places |= {
            f"{layer}.{name}": Place(f"layers.{index}.{place.parameter}", place.start, place.shape)
            for name, place in _layer(config, index).items()
        }
        scalar = f"layers.{index}.scalars"
        places[f"model.encoder.language_model.layers.{index}.layer_scalar"] = Place(scalar, 0, (1,))
        places[f"{layer}.layer_scalar"] = Place(scalar, 1, (1,))
    return places


def _layer(config: GemmaConfig, index: int) -> dict[str, Place]:
    assert config.moe is not None, "every layer has experts"
    hidden, inner, experts = config.hidden_size, config.moe.expert_size, config.moe.num_experts
    kv_heads, width = config.kv_shape(index)
    q, kv = config.num_heads * width, kv_heads * width
    projections = [("q", 0, q), ("k", q, kv), *([] if config.full[index] else [("v", q + kv, kv)])]
    places = {
        f"self_attn.{name}_proj.weight": Place("qkv.weight", start, (n, hidden)) for name, start, n in projections
    }
    places |= {f"{published}.weight": Place(ours, 0, (hidden,)) for published, ours in NORMS.items()}
    return places | {
        "self_attn.o_proj.weight": Place("out.weight", 0, (hidden, q)),
        "self_attn.q_norm.weight": Place("query_norm", 0, (width,)),
        "self_attn.k_norm.weight": Place("key_norm", 0, (width,)),
        **_mlp("mlp", "", hidden, config.intermediate_size),
        "router.proj.weight": Place("router", 0, (experts, hidden)),
        "router.scale": Place("router_scale", 0, (hidden,)),
        "router.per_expert_scale": Place("expert_scale", 0, (experts,)),
        "experts.gate_up_proj": Place("experts_gate_up", 0, (experts, 2 * inner, hidden)),
        "experts.down_proj": Place("experts_down", 0, (experts, hidden, inner)),
    }


def gemma_image_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Published name -> shape of what image input needs besides."""
    assert isinstance(config, GemmaConfig)
    return {} if config.vision is None else vision_shapes(config.vision, config.hidden_size)


NORMS = {
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "mixed_norm",
    "pre_feedforward_layernorm": "mlp_norm",
    "post_feedforward_layernorm_1": "dense_norm",
    "pre_feedforward_layernorm_2": "experts_norm",
    "post_feedforward_layernorm_2": "sparse_norm",
    "post_feedforward_layernorm": "sum_norm",
}


def _mlp(published: str, ours: str, hidden: int, inner: int) -> dict[str, Place]:
    ours = f"{ours}." if ours else ""
    return {
        f"{published}.gate_proj.weight": Place(f"{ours}gate_up.weight", 0, (inner, hidden)),
        f"{published}.up_proj.weight": Place(f"{ours}gate_up.weight", inner, (inner, hidden)),
        f"{published}.down_proj.weight": Place(f"{ours}down.weight", 0, (hidden, inner)),
    }
