"""Where each published tensor lives in our `Transformer`: q, k, v are rows of one matrix, and so are gate and up."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from anyorder.models.config import ModelConfig
from anyorder.models.moe.config import MoeConfig


@dataclass(frozen=True)
class Place:
    """A published tensor is `rows(parameter)[start : start + shape[0]]`."""

    parameter: str
    start: int
    shape: tuple[int, ...]

    def rows(self, parameter: Tensor) -> Tensor:
        """The tensor's part of the parameter: a view [shape]; the matrices of experts lie one below the other."""
        return parameter.view(-1, *self.shape[1:])[self.start : self.start + self.shape[0]]


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
    qkv: str = ""
    """One matrix for q, k and v, in this order; "": three."""
    router: str = "mlp.gate"
    router_bias: str = "mlp.gate.expert_bias"
    experts: str = "mlp.experts"
    shared: str = "mlp.shared_experts"


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
BAILING_LAYER = replace(
    HF_LAYER,
    qkv="attention.query_key_value",
    o="attention.dense",
    q_norm="attention.query_layernorm",
    k_norm="attention.key_layernorm",
)


def hf_names(config: ModelConfig) -> dict[str, Place]:
    """Published name -> place, for Hugging Face Llama and Qwen names."""
    return _names(config, "model.layers", HF_LAYER, "model.embed_tokens", "model.norm", "lm_head")


def llada_moe_names(config: ModelConfig) -> dict[str, Place]:
    """Published name -> place, for LLaDA-MoE, which keeps a router's bias and a shared expert beside its experts."""
    names = replace(HF_LAYER, router_bias="mlp.expert_bias", shared="shared_expert")
    return _names(config, "model.layers", names, "model.embed_tokens", "model.norm", "lm_head")


def nemotron_names(config: ModelConfig) -> dict[str, Place]:
    """Published name -> place, for Nemotron-Labs-Diffusion: an encoder with the head of both modes beside it."""
    return _names(config, "encoder.layers", HF_LAYER, "encoder.embed_tokens", "encoder.norm", "diffusion_head")


def bailing_names(config: ModelConfig) -> dict[str, Place]:
    """Published name -> place, for Ling's names, which LLaDA 2 keeps: q, k and v are one matrix."""
    return _names(config, "model.layers", BAILING_LAYER, "model.word_embeddings", "model.norm", "lm_head")


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
            for name, place in _layer(config, names, index).items()
        }
    return places


def _layer(config: ModelConfig, names: LayerNames, index: int) -> dict[str, Place]:
    hidden = config.hidden_size
    places = {
        f"{names.attention_norm}.weight": Place("attention_norm", 0, (hidden,)),
        f"{names.mlp_norm}.weight": Place("mlp_norm", 0, (hidden,)),
        f"{names.o}.weight": Place("out.weight", 0, (hidden, config.query_size)),
        **_qkv(config, names),
    }
    if config.qk_norm:
        places[f"{names.q_norm}.weight"] = Place("query_norm", 0, (config.head_dim,))
        places[f"{names.k_norm}.weight"] = Place("key_norm", 0, (config.head_dim,))
    if config.moe is not None and config.moe.layers[index]:
        return places | _experts(hidden, config.moe, names)
    published = (names.gate, names.up, names.down)
    return places | _mlp(hidden, config.intermediate_size, published, ("gate_up.weight", "down.weight"))


def _qkv(config: ModelConfig, names: LayerNames) -> dict[str, Place]:
    hidden, q, kv = config.hidden_size, config.query_size, config.kv_size
    projections = ((names.q, 0, q), (names.k, q, kv), (names.v, q + kv, kv))
    if names.qkv:
        projections = ((names.qkv, 0, q + 2 * kv),)
    places = {f"{name}.weight": Place("qkv.weight", start, (size, hidden)) for name, start, size in projections}
    if config.qkv_bias:
        places |= {f"{name}.bias": Place("qkv.bias", start, (size,)) for name, start, size in projections}
    return places


def _experts(hidden: int, moe: MoeConfig, names: LayerNames) -> dict[str, Place]:
    places = {f"{names.router}.weight": Place("moe.router", 0, (moe.num_experts, hidden))}
    if moe.bias:
        places[names.router_bias] = Place("moe.bias", 0, (moe.num_experts,))
    for number in range(moe.num_experts):
        published = _leaves(f"{names.experts}.{number}")
        places |= _mlp(hidden, moe.expert_size, published, ("moe.gate_up", "moe.down"), number)
    if moe.shared_size:
        ours = ("moe.shared_gate_up.weight", "moe.shared_down.weight")
        places |= _mlp(hidden, moe.shared_size, _leaves(names.shared), ours)
    return places


def _leaves(prefix: str) -> tuple[str, str, str]:
    return f"{prefix}.gate_proj", f"{prefix}.up_proj", f"{prefix}.down_proj"


def _mlp(
    hidden: int, inner: int, published: tuple[str, str, str], ours: tuple[str, str], number: int = 0
) -> dict[str, Place]:
    """The three matrices of a SwiGLU; `number`: among the experts whose matrices lie one below the other."""
    gate, up, down = published
    gate_up, own_down = ours
    return {
        f"{gate}.weight": Place(gate_up, 2 * inner * number, (inner, hidden)),
        f"{up}.weight": Place(gate_up, 2 * inner * number + inner, (inner, hidden)),
        f"{down}.weight": Place(own_down, hidden * number, (hidden, inner)),
    }
