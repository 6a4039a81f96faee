"""The diffusion transformer of MDLM and BD3-LM against a slow implementation that shares no code with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.tiny_models import random_tensors, write_checkpoint
from torch import Tensor

import anyorder
from anyorder.errors import ModelError, ParameterError
from anyorder.models.attention import attend_alone, block_mask

MDLM: dict[str, Any] = {
    "architectures": ["MDLM"],
    "model_type": "mdlm",
    "hidden_dim": 24,
    "n_heads": 3,
    "n_blocks": 2,
    "cond_dim": 10,
    "model_length": 16,
    "vocab_size": 30,
    "time_conditioning": False,
}
BD3LM: dict[str, Any] = {
    **MDLM,
    "architectures": ["BD3LM"],
    "model_type": "bd3lm",
    "block_size": 4,
    "adaln": True,
    "causal": False,
    "cross_attn": True,
}


def silu(x: Tensor) -> Tensor:
    return x / (1 + (-x).exp())


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def layer_norm(x: Tensor, weight: Tensor) -> Tensor:
    centred = x - x.mean()
    return centred / (centred.square().mean() + 1e-5).sqrt() * weight


def turned(head: Tensor, position: int) -> Tensor:
    """One head: its first and second half are the parts of complex numbers."""
    half = len(head) // 2
    angles = torch.tensor([position / 10000 ** (2 * i / len(head)) for i in range(half)], dtype=torch.float64)
    number = torch.complex(head[:half], head[half:]) * torch.polar(torch.ones(half, dtype=torch.float64), angles)
    return torch.cat([number.real, number.imag])


def slow_logits(w: dict[str, Tensor], ids: list[int], sees: Tensor, heads: int) -> Tensor:
    """Token by token and head by head, in float64."""
    w = {name.removeprefix("backbone."): tensor.double() for name, tensor in w.items()}

    def product(name: str, x: Tensor) -> Tensor:
        y = w[f"{name}.weight"] @ x
        return y + w[f"{name}.bias"] if f"{name}.bias" in w else y

    told = torch.cat([torch.ones(128), torch.zeros(128)]).double()  # cosines and sines of noise level 0
    told = silu(product("sigma_map.mlp.2", silu(product("sigma_map.mlp.0", told))))
    x = [w["vocab_embed.embedding"][token] for token in ids]
    for block in range(sum(name.endswith("attn_qkv.weight") for name in w)):
        b = f"blocks.{block}"
        shift, scale, gate, shift2, scale2, gate2 = product(f"{b}.adaLN_modulation", told).chunk(6)
        rows = [product(f"{b}.attn_qkv", layer_norm(t, w[f"{b}.norm1.weight"]) * (1 + scale) + shift) for t in x]
        q, k, v = ([row.view(3, heads, -1)[part] for row in rows] for part in range(3))
        mixed: list[Tensor] = []
        for i in range(len(ids)):
            heads_out: list[Tensor] = []
            for h in range(heads):
                seen = [j for j in range(len(ids)) if sees[i, j]]
                scores = torch.stack([turned(q[i][h], i) @ turned(k[j][h], j) for j in seen]) / len(q[i][h]) ** 0.5
                share = (scores - scores.max()).exp()
                share = share / share.sum()
                heads_out.append(sum((s * v[j][h] for s, j in zip(share, seen, strict=True)), torch.zeros(1)))
            mixed.append(torch.cat(heads_out))
        x = [t + gate * product(f"{b}.attn_out", m) for t, m in zip(x, mixed, strict=True)]
        normed = [layer_norm(t, w[f"{b}.norm2.weight"]) * (1 + scale2) + shift2 for t in x]
        x = [t + gate2 * product(f"{b}.mlp.2", gelu(product(f"{b}.mlp.0", n))) for t, n in zip(x, normed, strict=True)]
    shift, scale = product("output_layer.adaLN_modulation", told).chunk(2)
    last = [layer_norm(t, w["output_layer.norm_final.weight"]) * (1 + scale) + shift for t in x]
    return torch.stack([product("output_layer.linear", t) for t in last])


SIZES: dict[str, dict[str, Any]] = {
    "three heads": {},
    "one head": {"n_heads": 1, "cond_dim": 1},
    "heads of two numbers": {"n_heads": 12, "cond_dim": 33},
    "one layer": {"n_blocks": 1, "vocab_size": 7},
    "three layers": {"n_blocks": 3, "hidden_dim": 20, "n_heads": 5},
    "rows of 16 bytes": {"hidden_dim": 32, "n_heads": 4, "cond_dim": 16, "vocab_size": 64},
}


@pytest.mark.parametrize("pack", [None, False])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize(
    ("raw", "attention", "block"),
    [(MDLM, "bidirectional", 1), (BD3LM, "block", 4), (BD3LM, "block", 8), (BD3LM, "block", 16)],
    ids=["mdlm", "blocks of 4", "blocks of 8", "blocks of 16"],
)
def test_the_network_is_the_slow_one(
    raw: dict[str, Any], attention: Any, block: int, sizes: dict[str, Any], pack: bool | None, tmp_path: Path
) -> None:
    raw = {**raw, **sizes, "block_size": block}
    tensors = random_tensors(raw, seed=3)
    model = anyorder.load(write_checkpoint(tmp_path, raw, tensors), dtype="float64", pack=pack)
    ids = torch.randint(raw["vocab_size"], (9,), generator=torch.Generator().manual_seed(1))
    mask = block_mask(len(ids), attention, block)
    found = model.network.head(model.network(ids, torch.arange(9), attend_alone(mask)))
    sees = torch.ones(9, 9, dtype=torch.bool) if mask is None else mask
    torch.testing.assert_close(found, slow_logits(tensors, ids.tolist(), sees, raw["n_heads"]), atol=1e-9, rtol=0)


@pytest.mark.parametrize("setting", [{"time_conditioning": True}, {"adaln": False}, {"n_heads": 5}])
def test_what_is_not_supported_is_named(setting: dict[str, Any], tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, {**BD3LM}, random_tensors(BD3LM))
    folder.joinpath("config.json").write_text(__import__("json").dumps({**BD3LM, **setting}), "utf-8")
    with pytest.raises(ModelError, match=next(iter(setting)).replace("n_heads", "5 heads")):
        anyorder.load(folder)


@pytest.fixture(scope="module")
def mdlm(tmp_path_factory: pytest.TempPathFactory) -> anyorder.LoadedModel:
    return anyorder.load(write_checkpoint(tmp_path_factory.mktemp("mdlm"), MDLM))


@pytest.fixture(scope="module")
def bd3lm(tmp_path_factory: pytest.TempPathFactory) -> anyorder.LoadedModel:
    return anyorder.load(write_checkpoint(tmp_path_factory.mktemp("bd3lm"), BD3LM))


def test_an_empty_prompt_is_an_empty_canvas(mdlm: anyorder.LoadedModel) -> None:
    answer = anyorder.generate(mdlm, "", max_new_tokens=12, temperature=1.0, steps=1000)
    assert len(answer.ids) == 12
    assert mdlm.mask_token_id == 29
    assert 29 not in answer.ids
    assert answer.stats.passes <= 13  # passes that reveal nothing run no forward


@pytest.mark.parametrize("noise", ["loglinear", "cosine", "square", "square_root", "log"])
def test_every_noise_schedule_fills_the_canvas(mdlm: anyorder.LoadedModel, noise: str) -> None:
    answer = anyorder.generate(mdlm, "", max_new_tokens=12, temperature=1.0, steps=4, noise=noise)
    assert len(answer.ids) == 12


@pytest.mark.parametrize("changes", [{}, {"steps": 7}, {"policy": "threshold", "threshold": 0.5}, {"top_p": 0.6}])
@pytest.mark.parametrize(("block", "context"), [(4, 16), (8, 32), (16, 32), (24, 24)])
def test_blocks_with_and_without_cache_are_the_same(
    block: int, context: int, changes: dict[str, Any], tmp_path: Path
) -> None:
    """Up to the context; the last one is a block as long as it, as in the checkpoint of 1024."""
    raw = {**BD3LM, "block_size": block, "model_length": context}
    model = anyorder.load(write_checkpoint(tmp_path, raw), dtype="float64")
    assert model.block_length == block
    for length in (1, block - 1, block, context - 1):
        same = [
            anyorder.generate(model, [3], max_new_tokens=length, temperature=1.0, cache=cache, **changes)
            for cache in ("block", "none")
        ]
        assert same[0].ids == same[1].ids
        assert len(same[0].ids) == length
        assert model.mask_token_id not in same[0].ids


def test_a_block_of_1024(tmp_path: Path) -> None:
    """The pretrained checkpoint: one block as long as the context, the first token of it given."""
    raw = {**BD3LM, "block_size": 1024, "model_length": 1024, "hidden_dim": 8, "n_heads": 2, "n_blocks": 1}
    model = anyorder.load(write_checkpoint(tmp_path, raw))
    answer = anyorder.generate(model, [3], max_new_tokens=1023, temperature=1.0, steps=4)
    assert (model.block_length, len(answer.ids), answer.stats.passes) == (1024, 1023, 4)


def test_blocks_go_on_beyond_the_context(bd3lm: anyorder.LoadedModel) -> None:
    answer = anyorder.generate(bd3lm, [3], max_new_tokens=40, temperature=1.0)
    assert len(answer.ids) == 40
    alone = anyorder.generate(bd3lm, [3], max_new_tokens=15, temperature=1.0)
    assert answer.ids[:15] == alone.ids


def test_noise_belongs_to_ancestral_policies(bd3lm: anyorder.LoadedModel) -> None:
    with pytest.raises(ParameterError, match="policy 'threshold' does not read `noise`"):
        anyorder.generate(bd3lm, [3], policy="threshold", noise="cosine")
