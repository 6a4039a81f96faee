"""Experts: routing and products against a slow loop in float64, and whole networks against transformers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.models.tiny_models import causal, logits, write_checkpoint
from torch import Tensor

from anyorder.errors import ModelError, ParameterError
from anyorder.models.adapter import Adapter
from anyorder.models.attention import attend_alone
from anyorder.models.families import recognise
from anyorder.models.load import load
from anyorder.models.moe import Blocks, MoeConfig, SparseMLP
from anyorder.models.moe import layer as moe_layer
from anyorder.models.moe.router import route

HIDDEN, INNER, TOKENS = 16, 8, 23  # rows of 16 bytes, as grouped products need them
IDS = torch.tensor([3, 17, 0, 39, 5, 5, 22])

ROUTINGS: dict[str, dict[str, Any]] = {
    "softmax": {"score": "softmax", "normalise": False},
    "softmax normalised": {"score": "softmax", "normalise": True},
    "softmax, bias in the weights": {"score": "softmax", "normalise": False, "bias": True, "biased_weights": True},
    "one expert": {"score": "sigmoid", "normalise": False, "top_k": 1},
    "all experts": {"score": "softmax", "normalise": True, "top_k": 12},
    "sigmoid, bias": {"score": "sigmoid", "normalise": True, "bias": True, "scaling": 2.5},
    "2 of 4 groups": {"score": "sigmoid", "normalise": True, "bias": True, "num_groups": 4, "top_groups": 2},
    "1 of 2 groups": {"score": "sigmoid", "normalise": True, "num_groups": 2, "top_groups": 1, "scaling": 0.5},
    "all groups": {"score": "sigmoid", "normalise": True, "bias": True, "num_groups": 6, "top_groups": 6},
    "shared experts": {"score": "sigmoid", "normalise": True, "bias": True, "shared_size": 7},
}


def sparse(routing: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> SparseMLP:
    settings: dict[str, Any] = {
        "num_experts": 12,
        "top_k": 3,
        "expert_size": INNER,
        "layers": (True,),
        **ROUTINGS[routing],
    }
    made = SparseMLP(HIDDEN, MoeConfig(**settings))
    generator = torch.Generator().manual_seed(seed)
    for parameter in made.parameters():
        parameter.data.normal_(generator=generator)
    return made.to(dtype).requires_grad_(False)


def tokens(dtype: torch.dtype = torch.float64, count: int = TOKENS) -> Tensor:
    return torch.randn(count, HIDDEN, generator=torch.Generator().manual_seed(7), dtype=torch.float64).to(dtype)


def swiglu(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    inner = gate_up.shape[0] // 2
    gate, up = gate_up[:inner] @ x, gate_up[inner:] @ x
    return down @ (gate / (1 + torch.exp(-gate)) * up)


def slow_choice(scores: list[float], bias: list[float], moe: MoeConfig) -> dict[int, float]:
    """The chosen experts and their weights, by sorting lists."""
    ranked = [score + offset for score, offset in zip(scores, bias, strict=True)]
    size = moe.num_experts // moe.num_groups
    groups = [range(start, start + size) for start in range(0, moe.num_experts, size)]
    if moe.num_groups > 1:
        groups.sort(key=lambda group: -sum(sorted((ranked[e] for e in group), reverse=True)[:2]))
    eligible = [expert for group in groups[: moe.top_groups] for expert in group]
    chosen = sorted(eligible, key=lambda expert: -ranked[expert])[: moe.top_k]
    weights = {expert: (ranked if moe.biased_weights else scores)[expert] for expert in chosen}
    total = sum(weights.values()) if moe.normalise else 1.0
    return {expert: moe.scaling * weight / total for expert, weight in weights.items()}


def slow(layer: SparseMLP, x: Tensor) -> Tensor:
    """One token, one expert at a time."""
    rows: list[Tensor] = []
    assert isinstance(layer.gate_up, Tensor)
    assert isinstance(layer.down, Tensor)
    for token in x:
        raw = layer.router @ token
        scores = raw.exp() / raw.exp().sum() if layer.moe.score == "softmax" else 1 / (1 + torch.exp(-raw))
        bias = [0.0] * len(raw) if layer.bias is None else layer.bias.tolist()
        chosen = slow_choice(scores.tolist(), bias, layer.moe)
        row = sum((w * swiglu(token, layer.gate_up[e], layer.down[e]) for e, w in chosen.items()), torch.zeros(()))
        if layer.shared_gate_up is not None and layer.shared_down is not None:
            row = row + swiglu(token, layer.shared_gate_up.weight, layer.shared_down.weight)
        rows.append(row)
    return torch.stack(rows)


@pytest.mark.parametrize("routing", list(ROUTINGS))
@pytest.mark.parametrize("seed", range(3))
def test_a_layer_of_experts_is_the_loop_over_its_tokens(routing: str, seed: int) -> None:
    layer = sparse(routing, seed=seed)
    torch.testing.assert_close(layer(tokens()), slow(layer, tokens()), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("count", [1, 2, TOKENS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_grouped_product_of_accelerators_equals_the_one_by_one(
    count: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, x = sparse("2 of 4 groups", dtype), tokens(dtype, count)
    plain = layer(x)
    monkeypatch.setattr(moe_layer, "_one_by_one", None)
    monkeypatch.setattr(moe_layer, "can_group", lambda *_: True)
    torch.testing.assert_close(layer(x), plain)


@pytest.mark.parametrize("count", [1, 2, 300])
@pytest.mark.parametrize("top_k", [1, 3, 12])
def test_grouped_products_with_idle_experts_and_experts_of_many_tokens(
    count: int, top_k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last experts idle, or the first ones, or all but some: ends of groups repeat."""
    monkeypatch.setattr(moe_layer, "_one_by_one", None)
    monkeypatch.setattr(moe_layer, "can_group", lambda *_: True)
    layer, x = sparse("softmax", torch.float32), tokens(torch.float32, count)
    assert isinstance(layer.gate_up, Tensor)
    assert isinstance(layer.down, Tensor)
    weights = torch.rand(count, top_k, generator=torch.Generator().manual_seed(2))
    for first in range(12 - top_k + 1):
        experts = torch.arange(first, first + top_k).expand(count, -1)
        expected = [
            sum(
                (w * swiglu(row, layer.gate_up[e], layer.down[e]) for e, w in zip(own, share, strict=True)),
                torch.zeros(()),
            )
            for row, own, share in zip(x, experts.tolist(), weights, strict=True)
        ]
        found = moe_layer.mix(x, experts, weights, layer.gate_up, layer.down)
        torch.testing.assert_close(found, torch.stack(expected), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("device", "dtype", "width", "grouped"),
    [
        ("cuda", torch.bfloat16, 8, True),
        ("cuda", torch.float16, 8, True),
        ("cuda", torch.float32, 4, True),
        ("cuda", torch.bfloat16, 12, False),  # rows of 24 bytes
        ("cuda", torch.float32, 6, False),
        ("cuda", torch.float64, 8, False),
        (
            "cpu",
            torch.bfloat16,
            8,
            False,
        ),  # one product after the other
    ],
)
def test_products_are_grouped_on_cuda_where_torch_takes_them(
    device: str, dtype: torch.dtype, width: int, grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not grouped for its dtype or its rows is what `grouped_mm` refuses, also on a CPU."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    x = cast(Tensor, SimpleNamespace(device=torch.device(device), dtype=dtype))
    matrices = torch.zeros(3, 16, width, dtype=dtype)
    assert moe_layer.can_group(x, torch.zeros(3, 4, 16, dtype=dtype), matrices) == grouped
    assert not moe_layer.can_group(cast(Tensor, SimpleNamespace(device=torch.device("mps"), dtype=dtype)), matrices)
    with monkeypatch.context() as turing:
        turing.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
        assert not moe_layer.can_group(x, matrices)
    ends = torch.tensor([2, 2, 5], dtype=torch.int32)

    def product() -> Tensor:
        return torch.nn.functional.grouped_mm(torch.zeros(5, width, dtype=dtype), matrices.mT, offs=ends)

    if device == "cuda" and not grouped:
        with pytest.raises(RuntimeError, match=r"Float32|multiple of 16"):
            product()
    else:
        assert product().shape == (5, 16)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("dtype", moe_layer.GROUPED_DTYPES)
@pytest.mark.parametrize("count", [1, 2, TOKENS, 300])
def test_a_gpu_groups_what_a_cpu_does_one_by_one(dtype: torch.dtype, count: int) -> None:
    layer, x = sparse("2 of 4 groups", dtype), tokens(dtype, count)
    expected = layer(x)
    assert isinstance(layer.gate_up, Tensor)
    assert moe_layer.can_group(x.cuda(), layer.gate_up)
    torch.testing.assert_close(layer.cuda()(x.cuda()).cpu(), expected, atol=1e-2, rtol=1e-2)


def test_only_experts_that_are_hit_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = sparse("softmax"), tokens(count=2)
    hit = route(x, layer.router, layer.bias, layer.moe)[0].unique()
    products: list[Tensor] = []
    linear = torch.nn.functional.linear

    def counted(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        products.append(weight)
        return linear(x, weight, bias)

    monkeypatch.setattr(torch.nn.functional, "linear", counted)
    layer(x)
    assert len(products) == 1 + 2 * len(hit)  # the router's, and two per expert


def test_routing_does_not_depend_on_the_dtype_of_the_network() -> None:
    """A bfloat16 network routes in float32: its router and bias are not rounded."""
    layer, x = sparse("2 of 4 groups", torch.float32), tokens(torch.bfloat16)
    experts, weights = route(x, layer.router, layer.bias, layer.moe)
    exact, _ = route(x.double(), layer.router.double(), None if layer.bias is None else layer.bias.double(), layer.moe)
    assert torch.equal(experts.sort().values, exact.sort().values)
    assert weights.dtype == torch.float32


def test_gradients_are_those_of_the_loop() -> None:
    layer = sparse("shared experts").requires_grad_(True)
    x = tokens(count=4).requires_grad_(True)
    weight = torch.randn(4, HIDDEN, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (layer(x) * weight).sum().backward()
    got = {name: parameter.grad for name, parameter in layer.named_parameters() if name in ("gate_up", "down")}
    layer.zero_grad()
    (slow(layer, x.detach()) * weight).sum().backward()
    for name, gradient in got.items():
        torch.testing.assert_close(gradient, layer.get_parameter(name).grad, atol=1e-10, rtol=1e-10)


def test_the_grouped_product_has_the_gradients_of_the_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients: list[dict[str, Tensor | None]] = []
    for grouped in (False, True):
        layer = sparse("shared experts", torch.float32).requires_grad_(True)
        x = tokens(torch.float32).requires_grad_(True)
        monkeypatch.setattr(moe_layer, "can_group", lambda *_, grouped=grouped: grouped)
        layer(x).square().sum().backward()
        gradients.append({"x": x.grad, **{name: parameter.grad for name, parameter in layer.named_parameters()}})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("mode", ["block", "none"])
def test_a_network_of_experts_decodes_in_bfloat16(tmp_path: Path, mode: str) -> None:
    import anyorder

    model = load(write_checkpoint(tmp_path, LLADA2), dtype="bfloat16", mask_token_id=39)
    answer = anyorder.generate(model, [1, 2, 3], max_new_tokens=40, threshold=0.3, cache=mode, stop_ids=())
    assert len(answer.ids) == 40


QWEN3_MOE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "head_dim": 8,
    "vocab_size": 40,
    "max_position_embeddings": 64,
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "initializer_range": 0.2,
}


def with_drawn_vectors(model: torch.nn.Module) -> None:
    """Norms and biases start as constants, which would hide mistakes."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.dim() == 1 and tensor.is_floating_point() and len(set(tensor.tolist())) == 1:
            tensor.data.uniform_(0.5, 1.5)
    model.eval()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize(
    "changes",
    [
        {"norm_topk_prob": True},
        {"norm_topk_prob": False},
        {"norm_topk_prob": True, "decoder_sparse_step": 2},
        {"norm_topk_prob": True, "mlp_only_layers": [0]},
        {"num_experts_per_tok": 1, "num_experts": 3},
    ],
    ids=["normalised", "raw", "every second layer", "first layer dense", "one of three"],
)
def test_qwen3_moe_agrees_with_transformers(tmp_path: Path, tied: bool, kv_heads: int, changes: dict[str, Any]) -> None:
    import transformers

    torch.manual_seed(0)
    sizes: dict[str, Any] = {**QWEN3_MOE, "tie_word_embeddings": tied, "num_key_value_heads": kv_heads, **changes}
    model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**sizes))
    with_drawn_vectors(model)
    model.save_pretrained(tmp_path)
    with torch.no_grad():
        expected = model(IDS[None]).logits[0]
    for pack in (None, False):
        with torch.inference_mode():
            ours = logits(load(tmp_path, pack=pack).network, IDS, causal(len(IDS)))
        torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)


LLADA2: dict[str, Any] = {
    "architectures": ["LLaDA2MoeModelLM"],
    "model_type": "llada2_moe",
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 40,
    "max_position_embeddings": 64,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-6,
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "num_shared_experts": 1,
    "n_group": 4,
    "topk_group": 2,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 2.5,
    "partial_rotary_factor": 0.5,
    "tie_word_embeddings": False,
}

GLM_NAMES = (
    ("model.embed_tokens", "model.word_embeddings"),
    (".self_attn.o_proj", ".attention.dense"),
    (".self_attn.q_norm", ".attention.query_layernorm"),
    (".self_attn.k_norm", ".attention.key_layernorm"),
    ("e_score_correction_bias", "expert_bias"),
)


def from_glm(tensors: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """GLM-4-MoE's tensors under LLaDA 2's names; the two differ in names and in the fused matrix only."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        for theirs, ours in GLM_NAMES:
            name = name.replace(theirs, ours)
        renamed[name] = tensor
    for layer in range(layers):
        root = f"model.layers.{layer}"
        parts = [renamed.pop(f"{root}.self_attn.{kind}_proj.weight") for kind in "qkv"]
        renamed[f"{root}.attention.query_key_value.weight"] = torch.cat(parts)
    return renamed


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_key_value_heads": 1},
        {"num_key_value_heads": 4, "tie_word_embeddings": True},
        {"n_group": 1, "topk_group": 1},
        {"n_group": 2, "topk_group": 1, "num_shared_experts": 2},
        {"first_k_dense_replace": 2, "partial_rotary_factor": 0.25, "routed_scaling_factor": 1.0},
        {"first_k_dense_replace": 0, "partial_rotary_factor": 1.0},
    ],
    ids=lambda changes: ", ".join(f"{key}={value}" for key, value in changes.items()) or "as published",
)
def test_llada2_agrees_with_glm4_moe_of_transformers(tmp_path: Path, changes: dict[str, Any]) -> None:
    """GLM-4-MoE is the same network: partial rotary, head norms, sigmoid groups with a bias, shared experts."""
    import transformers

    raw = {**LLADA2, **changes}
    torch.manual_seed(0)
    theirs = {"num_experts": "n_routed_experts", "num_shared_experts": "n_shared_experts"}
    left_out = ("architectures", "model_type", "rope_theta", "partial_rotary_factor")
    sizes = {theirs.get(key, key): value for key, value in raw.items() if key not in left_out}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": raw["partial_rotary_factor"]}
    config = transformers.Glm4MoeConfig(
        **sizes, use_qk_norm=True, norm_topk_prob=True, rope_parameters=rope, initializer_range=0.2, num_mtp_layers=0
    )
    model = transformers.Glm4MoeForCausalLM(config)
    with_drawn_vectors(model)
    model.save_pretrained(tmp_path / "theirs")
    tensors = load_file(tmp_path / "theirs" / "model.safetensors")
    folder = write_checkpoint(tmp_path / "ours", raw, from_glm(tensors, raw["num_hidden_layers"]))
    with torch.no_grad():
        expected = model(IDS[None]).logits[0]
    for pack in (None, False):
        with torch.inference_mode():
            ours = logits(load(folder, pack=pack, mask_token_id=39).network, IDS, causal(len(IDS)))
        torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)


def test_the_last_layer_computes_the_wanted_rows_only(tmp_path: Path) -> None:
    network = load(write_checkpoint(tmp_path, LLADA2), dtype="float64", mask_token_id=39).network
    rows, positions, seen = torch.tensor([4, 1]), torch.arange(len(IDS)), list[int]()

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seen.append(len(q))
        return attend_alone(None)(layer, q, k, v)

    with torch.inference_mode():
        some = network.head(network(IDS, positions, attend, rows))
        torch.testing.assert_close(some, logits(network, IDS)[rows], atol=1e-12, rtol=0)
    assert seen == [7, 7, 2]


def test_routers_stay_in_float32(tmp_path: Path) -> None:
    network = load(write_checkpoint(tmp_path, LLADA2), dtype="bfloat16", mask_token_id=39).network
    dtypes = {name: parameter.dtype for name, parameter in network.named_parameters() if ".moe." in name}
    assert dtypes["layers.1.moe.router"] == dtypes["layers.1.moe.bias"] == torch.float32
    assert dtypes["layers.1.moe.gate_up"] == dtypes["layers.1.moe.down"] == torch.bfloat16


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"num_experts_per_tok": 9}, "experts per token must be from 1 to 8, got 9"),
        ({"n_group": 3}, "8 experts cannot be cut into 3 equal groups"),
        ({"topk_group": 5}, "groups per token must be from 1 to 4, got 5"),
        ({"n_group": 8}, "8 groups of one expert each"),
        ({"topk_group": 1}, "3 experts per token do not fit into 1 groups of 2"),
        ({"score_function": "softmax"}, "score_function='softmax'"),
        ({"use_qkv_bias": True}, "use_qkv_bias=True"),
        ({"partial_rotary_factor": 0.2}, "rotated part of a head must be even"),
        ({"expert_capacity": 2}, "experts per block must be from 3 to 8, got 2"),
        ({"num_experts": None}, "lacks 'num_experts'"),
        ({"moe_intermediate_size": 0}, "inner width of an expert must be positive"),
    ],
)
def test_impossible_and_unsupported_experts_are_refused(changes: dict[str, Any], part: str) -> None:
    raw = {**LLADA2, **changes}
    with pytest.raises(ModelError, match=part):
        recognise(raw).parse(raw)


def test_a_missing_expert_is_named(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, LLADA2)
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.2.mlp.experts.5.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"layers\.2\.mlp\.experts\.5\.up_proj\.weight missing"):
        load(folder)


def test_experts_take_no_adapter() -> None:
    config = recognise(LLADA2).parse(LLADA2)
    with pytest.raises(ParameterError, match="mixture of experts takes no adapter"):
        Adapter(config, rank=2, alpha=2)


def slow_blocks(scores: Tensor, bias: Tensor, blocks: list[int], shared: int, top_k: int) -> list[set[int]]:
    """The experts of every token where the tokens of a block share some, by sorting lists."""
    ranked = (scores + bias).tolist()
    pools: dict[int, list[int]] = {}
    for block in set(blocks):
        best = [max(row[e] for row, own in zip(ranked, blocks, strict=True) if own == block) for e in range(len(bias))]
        pools[block] = sorted(range(len(bias)), key=lambda e: -best[e])[:shared]
    return [set(sorted(pools[block], key=lambda e: -row[e])[:top_k]) for row, block in zip(ranked, blocks, strict=True)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("shared", "length"), [(3, 4), (5, 4), (12, 4), (4, 1), (4, 32)])
def test_tokens_of_a_block_share_experts(shared: int, length: int, seed: int) -> None:
    """LLaDA2.2: two sequences, one of which does not begin at the text's first block."""
    layer = sparse("sigmoid, bias", seed=seed)
    moe = replace(layer.moe, block_experts=shared, block_length=length)
    positions = [torch.arange(length, length + 10), torch.arange(13)]
    x = tokens()
    blocks = Blocks.of(positions, length, torch.device("cpu"))
    experts, weights = route(x, layer.router, layer.bias, moe, blocks)
    scores = (x @ layer.router.T).sigmoid()
    owners = [int(p) // length for p in positions[0]] + [1000 + int(p) // length for p in positions[1]]
    assert layer.bias is not None
    assert [set(row) for row in experts.tolist()] == slow_blocks(scores, layer.bias, owners, shared, moe.top_k)
    chosen = scores.gather(-1, experts)
    torch.testing.assert_close(weights, 2.5 * chosen / chosen.sum(-1, keepdim=True))


def test_sharing_all_experts_is_sharing_none() -> None:
    layer = sparse("sigmoid, bias")
    blocks = Blocks.of([torch.arange(TOKENS)], 4, torch.device("cpu"))
    alone = route(tokens(), layer.router, layer.bias, layer.moe)
    shared = route(tokens(), layer.router, layer.bias, replace(layer.moe, block_experts=12, block_length=4), blocks)
    torch.testing.assert_close(shared[1].sort().values, alone[1].sort().values)
    assert torch.equal(shared[0].sort().values, alone[0].sort().values)


LLADA_MOE: dict[str, Any] = {
    "architectures": ["LLaDAMoEModelLM"],
    "model_type": "llada",
    "hidden_size": 32,
    "dense_intermediate_size": 48,
    "expert_intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "max_position_embeddings": 64,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_layer_freq": [0, 1],
    "qk_layernorm": True,
    "mask_token_id": 39,
}


@pytest.mark.parametrize(
    ("changes", "score", "bias", "shared"),
    [
        ({}, "softmax", False, 0),
        ({"moe_router_enable_expert_bias": True}, "softmax", True, 0),
        ({"moe_router_score_function": "sigmoid", "shared_expert_intermediate_size": 16}, "sigmoid", False, 16),
    ],
    ids=["as published", "bias", "sigmoid and shared"],
)
def test_llada_moe_variants(tmp_path: Path, changes: dict[str, Any], score: str, bias: bool, shared: int) -> None:
    """The layer with experts, loaded under the published names, is the slow loop; its bias enters the weights."""
    network = load(write_checkpoint(tmp_path, {**LLADA_MOE, **changes}), dtype="float64", pack=False).network
    dense, sparse_layer = network.layers
    assert dense.moe is None  # type: ignore[union-attr]
    layer = sparse_layer.moe
    assert isinstance(layer, SparseMLP)
    assert (layer.moe.score, layer.bias is not None, layer.moe.shared_size) == (score, bias, shared)
    assert layer.moe.biased_weights
    x = torch.randn(9, 32, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), slow(layer, x), atol=1e-10, rtol=1e-10)


LLADA22: dict[str, Any] = {**LLADA2, "expert_capacity": 4, "block_size": 4, "mask_token_id": 39}


def test_a_block_of_a_cached_pass_is_that_of_an_uncached_one(tmp_path: Path) -> None:
    """Which experts a block shares depends on nothing outside of it, so finished blocks may be kept."""
    import anyorder

    model = load(write_checkpoint(tmp_path, LLADA22), dtype="float64", device="cpu")
    assert (model.block_length, model.config.shares_experts) == (4, True)
    for length in range(5, 12):
        prompt = torch.randint(0, 39, (length,), generator=torch.Generator().manual_seed(length)).tolist()
        one, other = (
            anyorder.generate(model, prompt, max_new_tokens=13, cache=cache, threshold=0.1, stop_ids=())
            for cache in ("block", "none")
        )
        assert one.ids == other.ids
        assert [s.confidence for s in one.trace] == pytest.approx([s.confidence for s in other.trace], abs=1e-6)


def test_a_batch_routes_every_request_by_itself(tmp_path: Path) -> None:
    import anyorder

    model = load(write_checkpoint(tmp_path, LLADA22), dtype="float64", device="cpu")
    prompts: list[Any] = [[1, 2, 3, 4, 5], [7], [11, 12, 13, 14, 15, 16, 17, 18, 19]]
    together = anyorder.generate_batch(model, prompts, max_new_tokens=10, threshold=0.1)
    alone = [anyorder.generate(model, prompt, max_new_tokens=10, threshold=0.1) for prompt in prompts]
    assert [answer.ids for answer in together] == [answer.ids for answer in alone]


def test_a_network_whose_blocks_are_not_named_says_so(tmp_path: Path) -> None:
    model = load(write_checkpoint(tmp_path, LLADA22), dtype="float64", device="cpu")
    with pytest.raises(ModelError, match="share experts by block"):
        logits(model.network, IDS)
    assert model.network.head(
        model.network(IDS, torch.arange(7), attend_alone(None), blocks=Blocks.of([torch.arange(7)], 4, model.device))
    ).shape == (7, 40)


def test_sdar_moe_is_qwen3_moe_decoded_as_sdar(tmp_path: Path) -> None:
    """The weights are read as transformers reads them; a block sees itself and what is before it."""
    import json

    import transformers

    torch.manual_seed(0)
    model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**QWEN3_MOE, norm_topk_prob=True))
    with_drawn_vectors(model)
    model.save_pretrained(tmp_path)
    size = 4
    blocks = torch.arange(len(IDS)) // size
    visible = blocks[:, None] >= blocks[None, :]
    bias = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)
    with torch.no_grad():
        expected = model(IDS[None], attention_mask=bias[None, None]).logits[0]
    path = tmp_path / "config.json"
    raw = json.loads(path.read_text("utf-8"))
    raw |= {"architectures": ["SDARMoeForCausalLM"], "mask_token_id": 39, "block_size": size}
    path.write_text(json.dumps(raw), "utf-8")
    sdar = load(tmp_path)
    assert (sdar.spec.name, sdar.block_length, sdar.spec.policy) == ("sdar_moe", size, "low_confidence_dynamic")
    with torch.inference_mode():
        torch.testing.assert_close(logits(sdar.network, IDS, visible), expected, atol=1e-4, rtol=1e-4)
