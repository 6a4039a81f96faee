"""Sizes and switches of a transformer, parsed from a published config.json; unsupported settings are refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from anyorder.errors import ModelError
from anyorder.models.moe.config import MoeConfig

RawConfig = Mapping[str, Any]

_CURE = "take another checkpoint, or run this one with its own code"


@dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """How the rotary frequencies were stretched after pre-training; formulas in `rope.py`."""

    kind: str
    """"linear", "llama3" or "yarn"."""
    factor: float
    original_max_context: int = 0
    """Context before stretching; llama3 and yarn."""
    low_freq_factor: float = 1.0
    """llama3: wavelengths above original_max_context / low_freq_factor are divided by `factor`."""
    high_freq_factor: float = 4.0
    """llama3: wavelengths below original_max_context / high_freq_factor are left alone."""
    beta_fast: float = 32.0
    """yarn: rotations within the original context from which a frequency is left alone."""
    beta_slow: float = 1.0
    """yarn: rotations within the original context below which a frequency is divided by `factor`."""
    attention_factor: float = 1.0
    """yarn: multiplies cos and sin."""
    truncate: bool = True
    """yarn: round the bounds of the ramp to whole dimensions."""
    query_beta: float = 0.0
    """yarn: queries grow with the logarithm of their position, see `rope.query_scale`; 0: they do not."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Everything that `Transformer` needs to know; hashable."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    """Rows of the embedding table and of the output head, padding rows included."""
    max_context: int
    """Tokens the checkpoint was published for (prompt and answer together)."""
    rms_norm_eps: float
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling | None = None
    qkv_bias: bool = False
    qk_norm: bool = False
    """RMS norm of every query and key head before the rotation."""
    tie_word_embeddings: bool = False
    rotary_dim: int | None = None
    """Leading part of every head that is rotated; None: all of it."""
    moe: MoeConfig | None = None
    """Experts in place of the dense MLP of some or all layers; None: every layer is dense."""

    def __post_init__(self) -> None:
        sizes = ("hidden_size", "intermediate_size", "num_layers", "num_heads", "num_kv_heads", "head_dim")
        faults = [
            f"{name} must be a positive integer, got {getattr(self, name)!r}"
            for name in (*sizes, "vocab_size", "max_context")
            if not _is_positive_int(getattr(self, name))
        ]
        if not faults and self.num_heads % self.num_kv_heads:
            faults.append(f"num_heads ({self.num_heads}) must be a multiple of num_kv_heads ({self.num_kv_heads})")
        if not faults and self.head_dim % 2:
            faults.append(f"head_dim must be even for rotary positions, got {self.head_dim}")
        if not faults and (self.rotated % 2 or not 0 < self.rotated <= self.head_dim):
            faults.append(f"the rotated part of a head must be even and at most {self.head_dim}, got {self.rotated}")
        if not faults and self.moe is not None and len(self.moe.layers) != self.num_layers:
            faults.append(f"experts are named for {len(self.moe.layers)} layers of {self.num_layers}")
        if not (self.rms_norm_eps > 0 and self.rope_theta > 0):
            faults.append(f"rms_norm_eps and rope_theta must be > 0, got {self.rms_norm_eps} and {self.rope_theta}")
        refuse(faults)

    @property
    def rotated(self) -> int:
        """Leading numbers of every head that are rotated."""
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    @property
    def shares_experts(self) -> bool:
        """Do the tokens of a block choose among the same experts, so that each depends on all of them?"""
        return self.moe is not None and self.moe.block_experts is not None

    def kv_shape(self, layer: int) -> tuple[int, int]:
        """Heads of a layer's keys (and values), and their width."""
        return self.num_kv_heads, self.head_dim

    def sliding_window(self, layer: int) -> int | None:
        """Columns that a token of this layer may look back on, itself included; None: all."""
        return None

    @property
    def query_size(self) -> int:
        """Width of all query heads together."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all key heads together; the same for the value heads."""
        return self.num_kv_heads * self.head_dim


def parse_hf(
    raw: RawConfig,
    *,
    qkv_bias: bool = False,
    qk_norm: bool = False,
    dense_size: int | None = None,
    partial_rotary: bool = False,
    moe: MoeConfig | None = None,
) -> ModelConfig:
    """Config with Hugging Face Llama/Qwen key names.

    Args:
        raw: the published config.json.
        qkv_bias: the family's q, k and v projections carry a bias (Qwen2 and its descendants).
        qk_norm: the family normalises query and key heads (Qwen3 and its descendants).
        dense_size: inner width of the dense MLPs; None: `intermediate_size`.
        partial_rotary: the family rotates the part of a head that `partial_rotary_factor` says.
        moe: the family's experts.
    Raises:
        ModelError: a size is missing or impossible, or a setting is not supported.
    """
    factor = raw.get("partial_rotary_factor") if partial_rotary else None
    refuse(_hf_faults(raw if factor is None else {**raw, "partial_rotary_factor": 1}))
    heads = required(raw, "num_attention_heads")
    hidden = required(raw, "hidden_size")
    head_dim = _head_width(hidden, heads) if raw.get("head_dim") is None else raw["head_dim"]
    theta, scaling = _rope(raw)
    return ModelConfig(
        hidden_size=hidden,
        intermediate_size=required(raw, "intermediate_size") if dense_size is None else dense_size,
        num_layers=required(raw, "num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=_or(raw.get("num_key_value_heads"), heads),
        head_dim=head_dim,
        vocab_size=required(raw, "vocab_size"),
        max_context=required(raw, "max_position_embeddings"),
        rms_norm_eps=float(_or(raw.get("rms_norm_eps"), 1e-6)),
        rope_theta=theta,
        rope_scaling=scaling,
        qkv_bias=qkv_bias,
        qk_norm=qk_norm,
        tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
        rotary_dim=None if factor is None else int(head_dim * factor),
        moe=moe,
    )


def parse_olmo(raw: RawConfig) -> ModelConfig:
    """Config with OLMo key names, as LLaDA publishes it; arguments and errors as in `parse_hf`."""
    refuse(_olmo_faults(raw))
    heads, hidden = required(raw, "n_heads"), required(raw, "d_model")
    kv_heads = _or(raw.get("n_kv_heads"), 1 if raw.get("multi_query_attention") else heads)
    theta, scaling = _rope(raw)
    return ModelConfig(
        hidden_size=hidden,
        intermediate_size=_or(raw.get("mlp_hidden_size"), int(_or(raw.get("mlp_ratio"), 4) * hidden)),
        num_layers=required(raw, "n_layers"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=_head_width(hidden, heads),
        vocab_size=_or(raw.get("embedding_size"), raw.get("vocab_size")),
        max_context=required(raw, "max_sequence_length"),
        rms_norm_eps=float(_or(raw.get("rms_norm_eps"), 1e-5)),
        rope_theta=theta,
        rope_scaling=scaling,
        qkv_bias=bool(raw.get("include_qkv_bias")),
        tie_word_embeddings=bool(raw.get("weight_tying", False)),
    )


def _hf_faults(raw: RawConfig) -> list[str]:
    faults = unlike(
        raw,
        hidden_act=("silu", None),
        attention_bias=(False, None),
        mlp_bias=(False, None),
        partial_rotary_factor=(1, None),
        quantization_config=(None,),
    )
    if _window_in_use(raw):
        faults.append(f"sliding-window attention (sliding_window={raw.get('sliding_window')})")
    if other := sorted({str(kind) for kind in raw.get("layer_types") or ()} - {"full_attention"}):
        faults.append(f"layer_types {', '.join(other)}")
    return faults


def _window_in_use(raw: RawConfig) -> bool:
    if "use_sliding_window" in raw:  # Qwen configs carry a window size even when it is switched off
        return bool(raw["use_sliding_window"])
    window = raw.get("sliding_window")
    return window is not None and window < raw.get("max_position_embeddings", math.inf)


def _olmo_faults(raw: RawConfig) -> list[str]:
    return unlike(
        raw,
        block_type=("llama",),
        activation_type=("silu",),
        layer_norm_type=("rms",),
        layer_norm_with_affine=(True, None),
        rope=(True,),
        alibi=(False, None),
        attention_layer_norm=(False, None),
        bias_for_layer_norm=(False, None),
        include_bias=(False, None),
        input_emb_norm=(False, None),
        scale_logits=(False, None),
        block_group_size=(1, None),
        clip_qkv=(None,),
        quantization_config=(None,),
    )


def unlike(raw: RawConfig, **allowed: tuple[object, ...]) -> list[str]:
    """A fault for every key whose value is none of those allowed; a missing key counts as None."""
    return [_fault(key, raw.get(key), values) for key, values in allowed.items() if raw.get(key) not in values]


def _fault(key: str, value: object, allowed: tuple[object, ...]) -> str:
    if key == "quantization_config":
        method = value.get("quant_method", "unnamed") if isinstance(value, Mapping) else value
        return f"weights in few bits ({key}: {method}; `quantize` makes some of the checkpoint they come from)"
    known = [repr(each) for each in allowed if each is not None]
    return f"{key}={value!r} (supported: {' or '.join(known) or 'none'})"


def _rope(raw: RawConfig) -> tuple[float, RopeScaling | None]:
    """Base and scaling from `rope_theta` + `rope_scaling` or from the newer `rope_parameters`."""
    table = dict(raw.get("rope_parameters") or raw.get("rope_scaling") or {})
    theta = float(_or(table.pop("rope_theta", None), _or(raw.get("rope_theta"), 10000.0)))
    kind = table.get("rope_type") or table.get("type") or "default"
    if kind == "default":
        return theta, None
    if kind not in _SCALINGS:
        refuse([f"rope scaling {kind!r} (supported: default, {', '.join(_SCALINGS)})"])
    if table.get("partial_rotary_factor", 1) != 1:
        refuse(["partial_rotary_factor with a rope scaling"])
    try:
        return theta, _SCALINGS[kind](table, raw)
    except KeyError as error:
        raise ModelError(f"config.json: rope scaling {kind!r} needs {error.args[0]!r}") from None


def _linear(table: RawConfig, raw: RawConfig) -> RopeScaling:
    return RopeScaling(kind="linear", factor=float(table["factor"]))


def _llama3(table: RawConfig, raw: RawConfig) -> RopeScaling:
    return RopeScaling(
        kind="llama3",
        factor=float(table["factor"]),
        original_max_context=int(table["original_max_position_embeddings"]),
        low_freq_factor=float(table["low_freq_factor"]),
        high_freq_factor=float(table["high_freq_factor"]),
    )


def _yarn(table: RawConfig, raw: RawConfig) -> RopeScaling:
    context = _or(raw.get("max_position_embeddings"), raw.get("max_sequence_length"))
    original = int(_or(table.get("original_max_position_embeddings"), context))
    factor = float(_or(table.get("factor"), context / original))
    return RopeScaling(
        kind="yarn",
        factor=factor,
        original_max_context=original,
        beta_fast=float(table.get("beta_fast") or 32),
        beta_slow=float(table.get("beta_slow") or 1),
        attention_factor=_yarn_attention(table, factor),
        truncate=bool(table.get("truncate", True)),
        query_beta=float(table.get("llama_4_scaling_beta") or 0),
    )


def _yarn_attention(table: RawConfig, factor: float) -> float:
    """YaRN's temperature; source: arXiv:2309.00071 section 3.4 and the mscale keys of DeepSeek configs."""
    if table.get("attention_factor") is not None:
        return float(table["attention_factor"])

    def mscale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if table.get("mscale") and table.get("mscale_all_dim"):
        return mscale(table["mscale"]) / mscale(table["mscale_all_dim"])
    return mscale(1.0)


_SCALINGS = {"linear": _linear, "llama3": _llama3, "yarn": _yarn}


def required(raw: RawConfig, key: str) -> int:
    """A number that a config must name.

    Raises:
        ModelError: it does not.
    """
    if raw.get(key) is None:
        raise ModelError(f"config.json lacks {key!r}; is the file complete?")
    return raw[key]


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _head_width(hidden: int, heads: int) -> int:
    if not (_is_positive_int(hidden) and _is_positive_int(heads)):
        raise ModelError(f"config.json: sizes must be positive integers, got hidden {hidden!r} and heads {heads!r}")
    if hidden % heads:
        raise ModelError(f"config.json: hidden size {hidden} is not divisible by {heads} attention heads")
    return hidden // heads


def _is_positive_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def refuse(faults: Iterable[str]) -> None:
    """One error for all faults; none without any.

    Raises:
        ModelError: there are faults.
    """
    if text := "; ".join(faults):
        raise ModelError(f"config.json asks for what is not supported or not possible: {text}; {_CURE}")
