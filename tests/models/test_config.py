"""Parsing of config.json: published sizes arrive, unsupported settings are refused by name, nothing is guessed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.models.tiny_models import LLAMA

from anyorder.errors import ModelError
from anyorder.models.config import ModelConfig
from anyorder.models.families import recognise
from benchmarks import published_shapes

LLADA_8B: dict[str, Any] = {
    **published_shapes.LLADA_8B, "alibi": False, "include_qkv_bias": False, "vocab_size": 126400,
}  # fmt: skip
DREAM_7B: dict[str, Any] = {
    "architectures": ["DreamModel"],
    "hidden_act": "silu",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "max_position_embeddings": 131072,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "use_sliding_window": False,
    "vocab_size": 152064,
}


def parse(raw: dict[str, Any], **changes: Any) -> ModelConfig:
    return recognise(raw).parse({**raw, **changes})


def test_llada_8b() -> None:
    config = parse(LLADA_8B)
    assert (config.hidden_size, config.intermediate_size, config.num_layers) == (4096, 12288, 32)
    assert (config.num_kv_heads, config.head_dim, config.max_context) == (32, 128, 4096)
    assert config.vocab_size == 126464, "rows of the head are embedding_size, not vocab_size"
    assert (config.qkv_bias, config.qk_norm, config.tie_word_embeddings) == (False, False, False)


def test_llada_without_optional_sizes() -> None:
    config = parse(LLADA_8B, n_kv_heads=None, mlp_hidden_size=None, mlp_ratio=4, embedding_size=None)
    assert (config.num_kv_heads, config.intermediate_size, config.vocab_size) == (32, 16384, 126400)


def test_dream_7b_has_qkv_biases() -> None:
    config = parse(DREAM_7B)
    assert (config.head_dim, config.kv_size, config.qkv_bias, config.rope_theta) == (128, 512, True, 1e6)


def test_head_dim_of_the_config_wins_over_the_quotient() -> None:
    config = parse({**LLAMA, "architectures": ["Qwen3ForCausalLM"], "head_dim": 20})
    assert (config.head_dim, config.query_size, config.qk_norm) == (20, 80, True)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"alibi": True}, "alibi=True"),
        ({"layer_norm_type": "low_precision"}, "layer_norm_type='low_precision'"),
        ({"block_type": "sequential"}, "block_type='sequential'"),
        ({"include_bias": True}, "include_bias=True"),
        ({"rope": False}, "rope=False"),
        ({"attention_layer_norm": True}, "attention_layer_norm=True"),
    ],
)
def test_unsupported_settings_of_llada_are_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ModelError, match=named):
        parse(LLADA_8B, **changes)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"attention_bias": True}, "attention_bias=True"),
        ({"mlp_bias": True}, "mlp_bias=True"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"use_sliding_window": True, "sliding_window": 16}, "sliding-window attention"),
        ({"sliding_window": 16}, "sliding-window attention"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "layer_types linear_attention"),
        (
            {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
            r"rope scaling 'dynamic' \(supported: default, linear, llama3, yarn\)",
        ),
        ({"rope_scaling": {"type": "linear"}}, "needs 'factor'"),
        ({"num_attention_heads": 5}, "not divisible by 5"),
        ({"num_key_value_heads": 3}, "must be a multiple of num_kv_heads"),
        ({"num_hidden_layers": 0}, "num_layers must be a positive integer, got 0"),
        ({"vocab_size": "many"}, "vocab_size must be a positive integer, got 'many'"),
        ({"hidden_size": None}, "lacks 'hidden_size'"),
        ({"head_dim": 7}, "head_dim must be even"),
    ],
)
def test_impossible_or_unsupported_settings_are_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ModelError, match=named):
        parse(LLAMA, **changes)


def test_all_unsupported_settings_come_in_one_message() -> None:
    with pytest.raises(ModelError, match=r"hidden_act='gelu'.*mlp_bias=True"):
        parse(LLAMA, hidden_act="gelu", mlp_bias=True)


def test_a_window_that_is_switched_off_is_no_window() -> None:
    assert parse(LLAMA, use_sliding_window=False, sliding_window=16).num_layers == 2


def test_rope_parameters_of_newer_configs() -> None:
    raw = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
    config = parse(raw, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5})
    assert config.rope_theta == 5e5
    assert config.rope_scaling is not None
    assert (config.rope_scaling.kind, config.rope_scaling.factor) == ("linear", 2.0)
    assert parse(raw, rope_parameters={"rope_type": "default", "rope_theta": 3.0}).rope_scaling is None


def test_heads_of_a_width_of_their_own_need_not_divide_the_network() -> None:
    config = parse({**LLAMA, "architectures": ["Qwen3ForCausalLM"], "num_attention_heads": 6, "head_dim": 20})
    assert (config.hidden_size, config.query_size) == (32, 120)
