"""Sizes and switches that no recording has, family by family, against a slow network in float64.

Every example is a config as the family publishes it, with random sizes, and weights under its published names. The
slow network is told what they mean by the test, not by the code that reads them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models import slow_network
from tests.models.slow_network import Experts, Names, Sketch, Slow
from tests.models.tiny_models import write_checkpoint
from torch import Tensor

import anyorder
from anyorder.runner import Runner
from anyorder.window import Attention, Window

VOCABULARY, TOKENS = 13, 7
Variant = tuple[dict[str, Any], Sketch]
Draw = Callable[[st.SearchStrategy[Any]], Any]


def pick(draw: Draw, *values: Any) -> Any:
    return draw(st.sampled_from(values))


def common(draw: Draw, *, head_dims: tuple[int, ...] = (2, 4, 6), **changes: Any) -> Sketch:
    kv_heads, head_dim = pick(draw, 1, 2, 3), pick(draw, *head_dims)
    heads = kv_heads * pick(draw, 1, 2, 3)
    sketch: dict[str, Any] = {
        "vocabulary": VOCABULARY,
        "hidden": 8,
        "inner": 10,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "layers": pick(draw, 1, 2, 3),
        "rotary": head_dim,
        "theta": pick(draw, 1e2, 5e5),
        "eps": pick(draw, 1e-6, 1e-2),
        "tied": draw(st.booleans()),
        **changes,
    }
    return Sketch(**sketch)


def hf(architecture: str, sketch: Sketch, **more: Any) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "hidden_size": sketch.hidden,
        "intermediate_size": sketch.inner,
        "num_hidden_layers": sketch.layers,
        "num_attention_heads": sketch.heads,
        "num_key_value_heads": sketch.kv_heads,
        "head_dim": sketch.head_dim,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 64,
        "rms_norm_eps": sketch.eps,
        "rope_theta": sketch.theta,
        "tie_word_embeddings": sketch.tied,
        "mask_token_id": VOCABULARY - 1,
        **more,
    }


def llada(draw: Draw) -> Variant:
    sketch = common(draw, biases=draw(st.booleans()))
    sketch = replace(sketch, hidden=sketch.heads * sketch.head_dim)
    raw = {
        "architectures": ["LLaDAModelLM"],
        "block_type": "llama",
        "activation_type": "silu",
        "layer_norm_type": "rms",
        "rope": True,
        "d_model": sketch.hidden,
        "n_heads": sketch.heads,
        "n_kv_heads": sketch.kv_heads,
        "n_layers": sketch.layers,
        "mlp_hidden_size": sketch.inner,
        "embedding_size": VOCABULARY,
        "vocab_size": VOCABULARY - 1,
        "max_sequence_length": 64,
        "rms_norm_eps": sketch.eps,
        "rope_theta": sketch.theta,
        "weight_tying": sketch.tied,
        "include_qkv_bias": sketch.biases,
        "mask_token_id": VOCABULARY - 1,
    }
    return raw, sketch


def dream(draw: Draw) -> Variant:
    sketch = common(draw, biases=True)
    return hf("DreamModel", sketch), sketch


def fast_dllm_v2(draw: Draw) -> Variant:
    block = pick(draw, 2, 4)
    sketch = common(draw, biases=True, block=block)
    return hf("Fast_dLLM_QwenForCausalLM", sketch, bd_size=block), sketch


def sdar(draw: Draw) -> Variant:
    block = pick(draw, 1, 3, 4)
    sketch = common(draw, qk_norm=True, block=block)
    return hf("SDARForCausalLM", sketch, block_size=block), sketch


def llada_moe(draw: Draw) -> Variant:
    count, layers = pick(draw, 1, 2, 5), pick(draw, 1, 2, 3)
    flags = tuple(draw(st.booleans()) for _ in range(layers))
    experts = Experts(
        dense=flags,
        count=count,
        top_k=draw(st.integers(1, count)),
        score=pick(draw, "softmax", "sigmoid"),
        bias=draw(st.booleans()),
        bias_weighs=True,
        shared=pick(draw, 0, 4),
    )
    sketch = common(draw, layers=layers, qk_norm=draw(st.booleans()), experts=experts)
    raw = hf(
        "LLaDAMoEModelLM",
        sketch,
        model_type="llada",
        dense_intermediate_size=sketch.inner,
        expert_intermediate_size=experts.size,
        shared_expert_intermediate_size=experts.shared or None,
        num_experts=count,
        num_experts_per_tok=experts.top_k,
        moe_layer_freq=[int(not dense) for dense in flags],
        moe_router_score_function=experts.score,
        moe_router_enable_expert_bias=experts.bias,
        qk_layernorm=sketch.qk_norm,
        norm_topk_prob=draw(st.booleans()),  # published, and not read by the published code
    )
    return raw, sketch


def llada2_moe(draw: Draw, *, shares: bool = False) -> Variant:
    dense, block, head_dim = pick(draw, 0, 1, 2), pick(draw, 2, 4), pick(draw, 8, 16)
    groups, size = pick(draw, 1, 2, 3), pick(draw, 2, 3)
    top_groups = draw(st.integers(1, groups))
    top_k = draw(st.integers(1, top_groups * size))
    shared, bias = pick(draw, 0, 1, 2), pick(draw, True, False, None)
    layers = pick(draw, 1, 2, 3)
    capacity = draw(st.integers(top_k, groups * size)) if shares else None
    experts = Experts(
        dense=tuple(layer < dense for layer in range(layers)),
        count=groups * size,
        top_k=top_k,
        score="sigmoid",
        normalised=top_k > 1,
        scaling=pick(draw, 1.0, 2.5),
        bias=bias is not False,
        groups=groups,
        top_groups=top_groups,
        shared=6 * shared,
        per_block=capacity,
    )
    part = pick(draw, 0.25, 0.5, 1.0)
    sketch = common(
        draw, layers=layers, head_dim=head_dim, rotary=int(part * head_dim), qk_norm=True, experts=experts, block=block
    )
    raw = hf(
        "LLaDA2MoeModelLM",
        sketch,
        moe_intermediate_size=experts.size,
        num_experts=experts.count,
        num_experts_per_tok=top_k,
        num_shared_experts=shared,
        n_group=groups,
        topk_group=top_groups,
        first_k_dense_replace=dense,
        routed_scaling_factor=experts.scaling,
        partial_rotary_factor=part,
        moe_router_enable_expert_bias=bias,
        expert_capacity=capacity,
        block_size=block,
    )
    return raw, sketch


def llada22_moe(draw: Draw) -> Variant:
    return llada2_moe(draw, shares=True)


def qwen3_moe(draw: Draw, architecture: str = "Qwen3MoeForCausalLM") -> Variant:
    count, layers, step = pick(draw, 1, 2, 5), pick(draw, 1, 2, 3), pick(draw, 1, 2)
    only = sorted(draw(st.sets(st.integers(0, layers - 1))))
    experts = Experts(
        dense=tuple(layer in only or (layer + 1) % step > 0 for layer in range(layers)),
        count=count,
        top_k=draw(st.integers(1, count)),
        score="softmax",
        normalised=draw(st.booleans()),
    )
    sketch = common(draw, layers=layers, qk_norm=True, experts=experts, block=3)
    raw = hf(
        architecture,
        sketch,
        moe_intermediate_size=experts.size,
        num_experts=count,
        num_experts_per_tok=experts.top_k,
        norm_topk_prob=experts.normalised,
        decoder_sparse_step=step,
        mlp_only_layers=only,
        block_size=3,
    )
    return raw, sketch


def sdar_moe(draw: Draw) -> Variant:
    return qwen3_moe(draw, "SDARMoeForCausalLM")


FAMILIES: dict[str, tuple[Callable[[Draw], Variant], Names, Attention]] = {
    "llada": (llada, slow_network.LLADA, "bidirectional"),
    "dream": (dream, slow_network.HF, "bidirectional"),
    "fast_dllm_v2": (fast_dllm_v2, slow_network.HF, "block"),
    "sdar": (sdar, slow_network.HF, "block"),
    "llada_moe": (llada_moe, slow_network.LLADA_MOE, "bidirectional"),
    "llada2_moe": (llada2_moe, slow_network.LLADA2, "block"),
    "llada2_moe-experts_by_block": (llada22_moe, slow_network.LLADA2, "block"),
    "qwen3_moe": (qwen3_moe, slow_network.HF, "causal"),
    "sdar_moe": (sdar_moe, slow_network.HF, "block"),
}


def sees(attention: Attention, block: int) -> Tensor:
    width = {"bidirectional": TOKENS, "block": block, "causal": 1}[attention]
    return torch.tensor([[j // width <= i // width for j in range(TOKENS)] for i in range(TOKENS)])


@pytest.mark.parametrize("family", list(FAMILIES))
@settings(max_examples=40)
@given(data=st.data(), pack=st.booleans())
@torch.inference_mode()
def test_every_variant_is_the_slow_network(family: str, data: st.DataObject, pack: bool) -> None:
    variant, names, attention = FAMILIES[family]
    raw, sketch = variant(data.draw)
    slow = Slow.drawn(sketch, names, seed=data.draw(st.integers(0, 99)))
    ids = data.draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=TOKENS, max_size=TOKENS))
    with tempfile.TemporaryDirectory() as folder:
        model = anyorder.load(
            write_checkpoint(Path(folder), raw, slow.tensors), dtype="float64", pack=None if pack else False
        )
    assert model.spec.name == family.split("-")[0]
    window = Window(
        ids=torch.tensor(ids),
        start=0,
        visible=TOKENS,
        rows=torch.arange(TOKENS),
        attention=attention,
        block_length=sketch.block,
        stores=False,
    )
    (found,) = Runner(model.network).forward([window], [None])
    expected = slow.logits(ids, sees(attention, sketch.block))
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
