"""What a family cannot do is refused: by the name of the family, by the setting, and with what to do instead."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.models.test_catalog import checkpoint, raw_of

from anyorder.errors import AnyorderError, ModelError, UnknownFamily
from anyorder.models.families import FAMILIES, LATER, recognise
from anyorder.models.load import load

Changes = dict[str, Any]
Table = list[tuple[Changes, str]]

FEW_BITS: Table = [
    ({"quantization_config": {"quant_method": method}}, f"quantization_config: {method}")
    for method in ("fp8", "gptq", "awq", "bitsandbytes", "compressed-tensors")
]
HF: Table = [
    *FEW_BITS,
    ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
    ({"hidden_act": "relu2"}, "hidden_act='relu2'"),
    ({"mlp_bias": True}, "mlp_bias=True"),
    ({"use_sliding_window": True, "sliding_window": 16}, "sliding_window=16"),
    ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types sliding_attention"),
    ({"layer_types": ["chunked_attention"]}, "layer_types chunked_attention"),
    *[
        ({key: {"rope_type": kind, "factor": 2.0}}, f"rope scaling '{kind}'")
        for key in ("rope_scaling", "rope_parameters")
        for kind in ("dynamic", "longrope", "proportional")
    ],
    ({"rope_scaling": {"type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
    ({"rope_scaling": {"type": "linear"}}, "'factor'"),
]
NO_BIAS: Table = [({"attention_bias": True}, "attention_bias=True")]
WHOLE_HEADS: Table = [({"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5")]
DIT: Table = [
    *FEW_BITS,
    ({"time_conditioning": True}, "time_conditioning=True"),
    ({"adaln": False}, "adaln=False"),
    ({"causal": True}, "causal=True"),
    ({"cross_attn": False}, "cross_attn=False"),
]
OWN: dict[str, Table] = {
    "llada": [
        *FEW_BITS,
        ({"alibi": True}, "alibi=True"),
        ({"activation_type": "gelu"}, "activation_type='gelu'"),
        ({"attention_layer_norm": True}, "attention_layer_norm=True"),
        ({"bias_for_layer_norm": True}, "bias_for_layer_norm=True"),
        ({"block_group_size": 2}, "block_group_size=2"),
        ({"block_type": "sequential"}, "block_type='sequential'"),
        ({"clip_qkv": 8.0}, "clip_qkv=8.0"),
        ({"include_bias": True}, "include_bias=True"),
        ({"input_emb_norm": True}, "input_emb_norm=True"),
        ({"layer_norm_type": "default"}, "layer_norm_type='default'"),
        ({"layer_norm_with_affine": False}, "layer_norm_with_affine=False"),
        ({"rope": False}, "rope=False"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "rope scaling 'dynamic'"),
        ({"scale_logits": True}, "scale_logits=True"),
    ],
    "llada_moe": [
        *HF, *NO_BIAS, *WHOLE_HEADS,
        ({"clip_qkv": 8.0}, "clip_qkv=8.0"),
        ({"moe_router_score_function": "tanh"}, "moe_router_score_function='tanh'"),
        ({"router_num_group": 2}, "router_num_group=2"),
        ({"router_topk_group": 2}, "router_topk_group=2"),
        ({"routed_scaling_factor": 2.5}, "routed_scaling_factor=2.5"),
        ({"moe_layer_freq": 2}, "moe_layer_freq"),
    ],
    "llada2_moe": [
        *HF, *NO_BIAS,
        ({"score_function": "softmax"}, "score_function='softmax'"),
        ({"use_bias": True}, "use_bias=True"),
        ({"use_qkv_bias": True}, "use_qkv_bias=True"),
        ({"use_qk_norm": False}, "use_qk_norm=False"),
        ({"use_rmsnorm": False}, "use_rmsnorm=False"),
        ({"norm_head": True}, "norm_head=True"),
        ({"using_split_qkv_in_self_attention": True}, "using_split_qkv_in_self_attention=True"),
    ],
    "nemotron_labs_diffusion": [
        *HF, *NO_BIAS, *WHOLE_HEADS, ({"dlm_paradigm": "sbd"}, "dlm_paradigm='sbd'"),
    ],
    "wedlm": [*HF, *WHOLE_HEADS],
    "mdlm": DIT,
    "bd3lm": DIT,
    "diffusion_gemma": [
        *FEW_BITS,
        ({"attention_bias": True}, "attention_bias=True"),
        ({"hidden_activation": "silu"}, "hidden_activation='silu'"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings=False"),
        ({"use_bidirectional_attention": "all"}, "use_bidirectional_attention='all'"),
        ({"layer_types": ["full_attention"] * 2 + ["chunked_attention"]}, "layer_types chunked_attention"),
    ],
}  # fmt: skip
CASES = [
    pytest.param(family, changes, named, id=f"{family}: {named}")
    for family in FAMILIES
    for changes, named in OWN.get(family, [*HF, *NO_BIAS, *WHOLE_HEADS])
]


@pytest.mark.parametrize(("family", "changes", "named"), CASES)
def test_what_is_not_supported_is_refused_by_name(family: str, changes: Changes, named: str, tmp_path: Path) -> None:
    raw = raw_of(family)
    if "text_config" in raw and "quantization_config" not in changes:
        changes = {"text_config": {**raw["text_config"], **changes}}
    (tmp_path / "config.json").write_text(json.dumps({**raw, **changes}), "utf-8")
    with pytest.raises(ModelError, match=re.escape(named)) as error:
        load(tmp_path)
    assert str(error.value).startswith(f"{family} ({FAMILIES[family].title}): config.json")
    assert named == "'factor'" or str(error.value).endswith(
        "; take another checkpoint, or run this one with its own code"
    )


@pytest.mark.parametrize("family", list(FAMILIES))
def test_the_config_of_the_table_is_taken_without_the_change(family: str) -> None:
    """Or the tests above would prove nothing."""
    raw = raw_of(family)
    assert recognise(raw).parse(raw).num_layers > 0


@pytest.mark.parametrize("architecture", [f"{beginning}ForCausalLM" for beginning in LATER])
def test_a_family_that_is_not_there_yet_is_refused_by_name(architecture: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}), "utf-8")
    with pytest.raises(UnknownFamily, match=f"'{architecture}'.*not supported yet; supported: llama, .*its own code"):
        load(tmp_path)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name in ("llada2_moe", "mdlm", "diffusion_gemma")])
def test_an_adapter_is_refused_by_the_name_of_the_family(family: str, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "base", family)
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["q_proj"], "bias": "none"}
    (adapter / "adapter_config.json").write_text(json.dumps(config), "utf-8")
    save_file({"base_model.model.x.lora_A.weight": torch.zeros(2, 2)}, adapter / "adapter_model.safetensors")
    with pytest.raises(AnyorderError, match=re.escape(FAMILIES[family].title) + ".*adapter"):
        load(folder, adapter=adapter)
