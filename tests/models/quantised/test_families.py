"""Every family in every scheme: nothing large stays as it was, memory is what was foretold, and it still decodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.tiny_models import LLAMA, write_checkpoint
from torch import nn

import anyorder
from anyorder.models.facts import describe
from anyorder.models.families import FAMILIES, recognise
from anyorder.models.load import load
from anyorder.models.quantised import EXPERTS, SCHEMES
from anyorder.models.quantised.int4 import Int4Linear
from anyorder.models.quantised.int8 import Int8DynamicLinear, Int8Linear
from anyorder.models.transformer import MappedEmbedding

REFERENCE = Path(__file__).parents[2] / "reference"
QUANTISED = (Int8Linear, Int8DynamicLinear, Int4Linear)
WIDE = {**LLAMA, "hidden_size": 64, "intermediate_size": 128, "vocab_size": 160}
MASK = 150
FEW = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


def reference(family: str) -> dict[str, Any]:
    return json.loads((REFERENCE / family / "config.json").read_text("utf-8"))


def as_hf(architecture: str, model_type: str, **changes: Any) -> dict[str, Any]:
    return {**WIDE, "architectures": [architecture], "model_type": model_type, **changes}


RAW: dict[str, Mapping[str, Any]] = {
    **{
        name: reference(name)
        for name in (
            "bd3lm", "mdlm", "diffusion_gemma", "dream", "fast_dllm_v2", "llada", "llada_moe", "llada2_moe", "sdar"
        )
    },
    "llama": WIDE,
    "qwen2": as_hf("Qwen2ForCausalLM", "qwen2"),
    "qwen3": as_hf("Qwen3ForCausalLM", "qwen3", head_dim=16),
    "qwen3_moe": as_hf("Qwen3MoeForCausalLM", "qwen3_moe", head_dim=16, **FEW),
    "sdar_moe": as_hf("SDARMoeForCausalLM", "sdar_moe", head_dim=16, **FEW),
    "stable_diffcoder": as_hf("StableDiffcoderForCausalLM", "stable_diffcoder"),
    "nemotron_labs_diffusion": as_hf("NemotronLabsDiffusionModel", "nemotron_labs_diffusion"),
    "efficient_dlm": as_hf("EfficientDLM", "qwen3", head_dim=16),
    "wedlm": as_hf("WeDLMForCausalLM", "wedlm"),
}  # fmt: skip


def test_no_family_is_left_out() -> None:
    assert not set(FAMILIES) - set(RAW)
    for name in FAMILIES:
        assert recognise(RAW[name]).name == name


WITH_EXPERTS = [name for name, spec in FAMILIES.items() if spec.parse(RAW[name]).moe is not None]


def folder_of(name: str, parent: Path) -> Path:
    """A random checkpoint that reads text, with a mask token among its ids unless it has noise instead."""
    raw = {key: value for key, value in RAW[name].items() if key != "vision_config"}
    if FAMILIES[name].noise == "mask" and not FAMILIES[name].mask_is_last:
        raw["mask_token_id"] = MASK
    return write_checkpoint(parent / name, raw)


def held(network: nn.Module) -> int:
    tensors = {id(tensor): tensor for tensor in [*network.parameters(), *network.buffers()]}
    tables = [module.table for module in network.modules() if isinstance(module, MappedEmbedding)]
    return sum(tensor.nbytes for tensor in [*tensors.values(), *tables])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_matrix_is_rounded_and_the_model_decodes(family: str, scheme: str, tmp_path: Path) -> None:
    """Guards against a family whose matrices have names that rounding does not know."""
    model = load(folder_of(family, tmp_path), quantize=scheme, dtype="float32", device="cpu", verify=False)
    left = {
        name: tuple(parameter.shape)
        for name, parameter in model.network.named_parameters()
        if parameter.dim() > 1 and "router" not in name
    }
    assert not left, "matrices that were not rounded"
    assert any(isinstance(module, QUANTISED) for module in model.network.modules())
    foretold = describe(model.config, model.spec, dtype=torch.float32, scheme=SCHEMES[scheme]).weight_bytes
    assert held(model.network) == pytest.approx(foretold, rel=0.01)
    answer = anyorder.generate(model, [1, 2, 3, 4], max_new_tokens=8, seed=1)
    assert 0 < len(answer.ids) <= 8
    assert all(0 <= token < model.config.vocab_size for token in answer.ids)


@pytest.mark.parametrize("family", WITH_EXPERTS)
def test_experts_are_named_as_rounding_knows_them(family: str) -> None:
    """And a token's active parameters are fewer than all."""
    spec = recognise(RAW[family])
    config = spec.parse(RAW[family])
    names = {place.parameter for place in spec.weight_names(config).values()}
    assert any(name.endswith(EXPERTS) for name in names)
    facts = describe(config, spec, dtype=torch.bfloat16)
    assert facts.active_parameters < facts.num_parameters
