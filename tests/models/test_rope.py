"""Rotary frequencies against transformers, the rotation against its definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.models.tiny_models import LLAMA

from anyorder.models import rows
from anyorder.models.config import parse_hf
from anyorder.models.rope import rotate, rotation

SCALINGS: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "yarn with every key": {
        "rope_type": "yarn",
        "factor": 2.5,
        "original_max_position_embeddings": 128,
        "beta_fast": 16,
        "beta_slow": 2,
        "mscale": 0.7,
        "mscale_all_dim": 0.3,
        "truncate": False,
    },
    "yarn with its own attention factor": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 64,
        "attention_factor": 1.3,
    },
}


@pytest.mark.parametrize("name", list(SCALINGS))
def test_tables_agree_with_transformers(name: str) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    raw: dict[str, Any] = {**LLAMA, "head_dim": 32, "max_position_embeddings": 512}
    raw["rope_parameters"] = {"rope_theta": raw.pop("rope_theta"), **SCALINGS[name]}
    positions = torch.tensor([0, 1, 2, 63, 64, 300, 511])
    theirs = LlamaRotaryEmbedding(LlamaConfig(**raw))(torch.zeros(1), positions[None])
    cos, sin = rotation(parse_hf(raw), positions, torch.float32)
    torch.testing.assert_close(cos[:, 0], theirs[0][0], atol=2e-5, rtol=0)
    torch.testing.assert_close(sin[:, 0, 16:], theirs[1][0][:, 16:], atol=2e-5, rtol=0)
    torch.testing.assert_close(-sin[:, 0, :16], theirs[1][0][:, :16], atol=2e-5, rtol=0)


def test_rotation_turns_pairs_half_a_head_apart() -> None:
    config = parse_hf({**LLAMA, "hidden_size": 4, "num_attention_heads": 1, "num_key_value_heads": 1})
    cos, sin = rotation(config, torch.tensor([3]), torch.float64)
    x = torch.tensor([[[1.0, 0.0, 0.0, 1.0]]], dtype=torch.float64)
    angles = torch.tensor([3.0, 3.0 / 100.0], dtype=torch.float64)
    expected = torch.stack((angles[0].cos(), -angles[1].sin(), angles[0].sin(), angles[1].cos()))
    torch.testing.assert_close(rotate(x, cos, sin)[0, 0], expected, atol=1e-15, rtol=0)


def test_half_precision_heads_are_rotated_in_float32() -> None:
    config = parse_hf(LLAMA)
    cos, sin = rotation(config, torch.tensor([50]), torch.bfloat16)
    x = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert cos.dtype == torch.float32
    assert torch.equal(rotate(x, cos, sin), rotate(x.float(), cos, sin).bfloat16())


def test_tables_made_while_inferring_serve_training() -> None:
    config = parse_hf({**LLAMA, "rope_theta": 777.0})  # not yet cached
    with torch.inference_mode():
        rotation(config, torch.tensor([1]), torch.float32)
    x = torch.ones(1, 4, 8, requires_grad=True)
    rotate(x, *rotation(config, torch.tensor([1]), torch.float32)).sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("tokens", [1, 7])
def test_gradients_are_turned_back(tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "ROWS", 3)
    config = parse_hf(LLAMA)
    cos, sin = rotation(config, torch.arange(tokens) * 5, torch.float64)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(tokens, 4, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    half = torch.cat((-x[..., 4:], x[..., :4]), -1)  # as published code writes it
    want = x * cos + half * torch.cat((-sin[..., :4], sin[..., 4:]), -1)
    got = rotate(x, cos, sin)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(*(torch.autograd.grad(y, x, gradient, retain_graph=True) for y in (got, want)))
