"""Sizes from a config alone, against the published figures and against a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.published_shapes import LLADA2_MINI
from tests.models.test_config import DREAM_7B, LLADA_8B
from tests.models.test_moe import LLADA2
from tests.models.tiny_models import LLAMA, write_checkpoint

from anyorder.models.facts import describe, num_parameters
from anyorder.models.families import FAMILIES, recognise
from anyorder.models.load import load


def test_published_sizes() -> None:
    llada, dream = (recognise(raw).parse(raw) for raw in (LLADA_8B, DREAM_7B))
    assert num_parameters(llada, FAMILIES["llada"]) == 8_015_581_184
    assert num_parameters(dream, FAMILIES["dream"]) == 7_615_616_512


LLADA_MOE: dict[str, Any] = {
    "architectures": ["LLaDAMoEModelLM"],
    "hidden_size": 2048,
    "dense_intermediate_size": 8192,
    "expert_intermediate_size": 1024,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 157184,
    "max_position_embeddings": 8192,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "moe_layer_freq": [1] * 16,
    "qk_layernorm": True,
    "rope_theta": 50000,
}
SDAR_30B: dict[str, Any] = {
    "architectures": ["SDARMoeForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
}


@pytest.mark.parametrize(
    ("raw", "parameters", "active"),
    [
        (LLADA2_MINI, 16_255_643_392, 1_432_973_056),  # called 16B-A1B
        (LLADA_MOE, 7_356_880_896, 1_719_736_320),  # 7B-A1B
        (SDAR_30B, 30_532_122_624, 3_353_032_704),  # 30B-A3B, as Qwen3-30B-A3B
    ],
    ids=lambda value: value["architectures"][0] if isinstance(value, dict) else None,
)
def test_published_sizes_of_experts(raw: dict[str, Any], parameters: int, active: int) -> None:
    """The names leave the tables of input and output out; here they are active, too."""
    spec = recognise(raw)
    facts = describe(spec.parse(raw), spec, dtype=torch.bfloat16)
    assert (facts.num_parameters, facts.active_parameters) == (parameters, active)


def test_a_checkpoint_of_experts_has_its_published_number_of_tensors() -> None:
    """LLaDA2.1 and 2.2 flash: 24161 tensors in 32 shards."""
    raw = {**LLADA2_MINI, "hidden_size": 4096, "moe_intermediate_size": 1024, "num_hidden_layers": 32}
    spec = recognise(raw)
    assert len(spec.weight_names(spec.parse(raw))) == 24_161


def test_memory_at_a_context() -> None:
    config = recognise(DREAM_7B).parse(DREAM_7B)
    facts = describe(config, FAMILIES["dream"], dtype=torch.bfloat16, context=2048)
    assert facts.kv_bytes_per_token == 2 * 28 * 4 * 128 * 2
    assert facts.kv_bytes == 2048 * facts.kv_bytes_per_token
    assert facts.weight_bytes == 2 * facts.num_parameters
    assert describe(config, FAMILIES["dream"], dtype=torch.bfloat16).context == 131072


def test_parameters_are_counted_as_the_network_has_them(tmp_path: Path) -> None:
    for raw in ({**LLAMA, "tie_word_embeddings": True}, {**LLAMA, "tie_word_embeddings": False}, LLADA2):
        model = load(write_checkpoint(tmp_path, raw), pack=False, mask_token_id=39)
        counted = sum(parameter.numel() for parameter in model.network.parameters())
        assert num_parameters(model.config, model.spec) == counted
