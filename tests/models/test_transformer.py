"""One transformer against transformers' Llama, Qwen2 and Qwen3, and the properties the engine relies on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.tiny_models import LLAMA, causal, logits, write_checkpoint
from torch import Tensor

from anyorder.models.attention import sdpa
from anyorder.models.load import load
from anyorder.models.transformer import Transformer

IDS = torch.tensor([3, 17, 0, 39, 5, 5, 22])


def theirs(folder: Path, family: str, **changes: Any) -> Tensor:
    """Save a random model of transformers into `folder` and return its logits of IDS."""
    import transformers

    torch.manual_seed(0)
    sizes = {key: value for key, value in LLAMA.items() if key not in ("architectures", "model_type", "rope_theta")}
    config = getattr(transformers, f"{family}Config")(**{**sizes, "initializer_range": 0.2, **changes})
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    for parameter in model.parameters():  # biases and norms start as constants, which would hide mistakes
        if parameter.dim() == 1:
            parameter.data.normal_()
    model.save_pretrained(folder)
    with torch.no_grad():
        return model(IDS[None]).logits[0]


@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3"])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_logits_agree_with_transformers(tmp_path: Path, family: str, tied: bool, kv_heads: int) -> None:
    expected = theirs(tmp_path, family, tie_word_embeddings=tied, num_key_value_heads=kv_heads, head_dim=8)
    for pack in (None, False):
        network = load(tmp_path, pack=pack).network
        with torch.inference_mode():
            torch.testing.assert_close(logits(network, IDS, causal(len(IDS))), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", "factor": 2.0},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    ],
    ids=lambda rope: rope["rope_type"],
)
def test_rope_scaling_agrees_with_transformers(tmp_path: Path, rope: dict[str, Any]) -> None:
    expected = theirs(tmp_path, "Llama", rope_parameters={"rope_theta": 1000.0, **rope})
    with torch.inference_mode():
        ours = logits(load(tmp_path).network, IDS, causal(len(IDS)))
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("base", "architecture", "changes"),
    [
        ("Qwen2", "WeDLMForCausalLM", {}),
        ("Qwen3", "WeDLMForCausalLM", {"attention_bias": False, "qk_norm": True}),
        ("Llama", "StableDiffcoderForCausalLM", {"model_type": "llama"}),
        ("Qwen3", "EfficientDLM", {"model_type": "qwen3"}),
        ("Qwen3", "EfficientDLM", {"model_type": "edlm"}),
    ],
)
def test_relabelled_networks_are_their_bases(
    tmp_path: Path, base: str, architecture: str, changes: dict[str, Any]
) -> None:
    import json

    expected = theirs(tmp_path, base, head_dim=8)
    path = tmp_path / "config.json"
    raw = {key: value for key, value in json.loads(path.read_text("utf-8")).items() if key != "attention_bias"}
    path.write_text(json.dumps({**raw, "architectures": [architecture], "mask_token_id": 39, **changes}), "utf-8")
    model = load(tmp_path)
    assert (model.spec.architectures, model.mask_token_id) == ((architecture,), 39)
    with torch.inference_mode():
        ours = logits(model.network, IDS, causal(len(IDS)))
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)


def test_queries_that_grow_agree_with_ministral3(tmp_path: Path) -> None:
    """The same network under Nemotron-Labs-Diffusion's names; some positions lie beyond the first context."""
    from safetensors.torch import load_file

    rope = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 3,
            "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}  # fmt: skip
    rope["llama_4_scaling_beta"] = 0.7
    expected = theirs(tmp_path / "theirs", "Ministral3", rope_parameters=rope, head_dim=8, sliding_window=None)
    renamed = {
        name.replace("lm_head", "diffusion_head").replace("model.", "encoder."): tensor
        for name, tensor in load_file(tmp_path / "theirs" / "model.safetensors").items()
    }
    raw = {**LLAMA, "architectures": ["NemotronLabsDiffusionModel"], "rope_parameters": rope, "mask_token_id": 39}
    del raw["rope_theta"]
    with torch.inference_mode():
        ours = logits(load(write_checkpoint(tmp_path / "ours", raw, renamed)).network, IDS, causal(len(IDS)))
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    return load(write_checkpoint(tmp_path_factory.mktemp("llama")), dtype="float64").network


def test_wanted_rows_are_exact(network: Transformer) -> None:
    rows = torch.tensor([4, 1])

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return sdpa(q, k.transpose(0, 1), v.transpose(0, 1), None)

    with torch.inference_mode():
        wanted = network.head(network(IDS, torch.arange(len(IDS)), attend, rows))
        torch.testing.assert_close(wanted, logits(network, IDS)[rows], atol=1e-12, rtol=0)


def test_no_wanted_row_still_hands_over_every_layers_keys(network: Transformer) -> None:
    seen: list[tuple[int, int]] = []

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seen.append((len(q), len(k)))
        return sdpa(q, k.transpose(0, 1), v.transpose(0, 1), None)

    hidden = network(IDS, torch.arange(len(IDS)), attend, torch.tensor([], dtype=torch.int64))
    assert seen == [(7, 7), (0, 7)]
    assert network.head(hidden).shape == (0, 40)


def test_only_the_positions_order_the_tokens(network: Transformer) -> None:
    """Packed tokens may come in any order: shuffling ids and positions together shuffles the logits."""
    order = torch.tensor([6, 2, 0, 5, 3, 1, 4])
    with torch.inference_mode():
        shuffled = logits(network, IDS[order], positions=order)
        torch.testing.assert_close(shuffled, logits(network, IDS)[order], atol=1e-12, rtol=0)


def test_float64_is_computed_in_float64(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path)
    with torch.inference_mode():
        exact = logits(load(folder, dtype="float64").network, IDS)
        single = logits(load(folder, dtype="float32").network, IDS)
    assert exact.dtype == torch.float64
    assert 0 < (exact - single).abs().max() < 1e-4


def test_bfloat16_gives_float32_logits_near_the_exact_ones(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path)
    with torch.inference_mode():
        for pack in (None, False):
            rough = logits(load(folder, dtype="bfloat16", pack=pack).network, IDS)
            exact = logits(load(folder, dtype="float64").network, IDS)
            assert rough.dtype == torch.float32
            assert (rough - exact).norm() / exact.norm() < 0.05


@pytest.mark.parametrize("tied", [False, True])
def test_plain_parameters_train(tmp_path: Path, tied: bool) -> None:
    folder = write_checkpoint(tmp_path, {**LLAMA, "tie_word_embeddings": tied})
    network = load(folder, pack=False).network
    logits(network, IDS).log_softmax(-1).diagonal().sum().backward()
    missing = [name for name, parameter in network.named_parameters() if parameter.grad is None]
    assert not missing
    assert (network.output.weight is network.embed.weight) == tied
