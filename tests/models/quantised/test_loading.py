"""Checkpoints loaded in few bits: the memory that was foretold, logits near the exact ones, decoding as always."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.test_moe import LLADA2
from tests.models.tiny_models import LLAMA, causal, logits, write_checkpoint
from torch import Tensor

import anyorder
from anyorder.errors import ParameterError
from anyorder.models.facts import describe
from anyorder.models.linear import PackedLinear
from anyorder.models.load import load
from anyorder.models.quantised import SCHEMES
from anyorder.models.quantised.int4 import Int4Linear
from anyorder.models.quantised.int8 import Int8DynamicLinear, Int8Linear
from anyorder.models.transformer import MappedEmbedding, Transformer

WIDE: dict[str, Any] = {**LLAMA, "hidden_size": 64, "intermediate_size": 128, "vocab_size": 128}
EXPERTS: dict[str, Any] = {
    **LLADA2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "moe_intermediate_size": 64,
    "mask_token_id": 39,
}
RAW = {"untied": WIDE, "tied": {**WIDE, "tie_word_embeddings": True}, "experts": EXPERTS}
KINDS = {"int8": Int8Linear, "int8-dynamic": Int8DynamicLinear, "int4": Int4Linear}


def held(network: Transformer) -> int:
    """Bytes of everything that the network keeps, the mapped table as if it were copied."""
    tensors = {id(tensor): tensor for tensor in [*network.parameters(), *network.buffers()]}
    table = network.embed.table.numel() * network.dtype.itemsize if isinstance(network.embed, MappedEmbedding) else 0
    return table + sum(tensor.nbytes for tensor in tensors.values())


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("kind", RAW)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_load_takes_what_was_foretold(tmp_path: Path, name: str, kind: str, dtype: str) -> None:
    model = load(write_checkpoint(tmp_path, RAW[kind]), quantize=name, dtype=dtype, device="cpu", verify=False)
    foretold = describe(model.config, model.spec, dtype=getattr(torch, dtype), scheme=SCHEMES[name]).weight_bytes
    assert held(model.network) == pytest.approx(foretold, rel=0.01)
    assert isinstance(model.network.get_submodule("layers.0.out"), KINDS[name])
    assert not any(isinstance(module, PackedLinear) for module in model.network.modules())


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("kind", RAW)
def test_logits_are_near_the_exact_ones(tmp_path: Path, name: str, kind: str) -> None:
    folder = write_checkpoint(tmp_path, RAW[kind])
    ids = torch.arange(12) * 3
    rounded, exact = (self_logits(folder, ids, quantize) for quantize in (name, None))
    error = (rounded - exact).norm() / exact.norm()
    routed = 4 if kind == "experts" else 1  # a rounded hidden state may go to another expert
    assert 1e-4 < error < routed * {"int8": 0.05, "int8-dynamic": 0.08, "int4": 0.45}[name]


def self_logits(folder: Path, ids: Tensor, quantize: str | None) -> Tensor:
    model = load(folder, quantize=quantize, device="cpu", verify=False)
    with torch.inference_mode():
        return logits(model.network, ids, causal(len(ids)))


def test_the_default_model_still_knows_the_capital() -> None:
    model = anyorder.load("smollm2", quantize="int8-dynamic")
    assert anyorder.generate(model, "The capital of France is", max_new_tokens=3).text.startswith(" Paris")


def test_a_layout_of_their_own() -> None:
    with pytest.raises(ParameterError, match="drop `pack`"):
        load("tasks", quantize="int8", pack=True)
    with pytest.raises(ParameterError, match="quantize must be one of"):
        load("tasks", quantize="int2")
