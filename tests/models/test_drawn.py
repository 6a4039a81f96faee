"""Weights drawn to begin training with: the rule, and that a tensor depends on seed and name only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.models.tiny_models import LLAMA

from anyorder.errors import WeightsError
from anyorder.models.config import parse_hf, parse_olmo
from anyorder.models.families import FAMILIES
from anyorder.models.load.build import build
from anyorder.models.load.default import EMBEDDED
from anyorder.models.load.drawn import DrawnCheckpoint
from anyorder.models.load.survey import survey

SIZES = {"d_model": 256, "mlp_hidden_size": 512, "n_heads": 4, "n_layers": 3, "vocab_size": 300}
RAW = json.loads((EMBEDDED / "tasks" / "config.json").read_text("utf-8"))
PLACES = FAMILIES["llada"].weight_names(parse_olmo({**RAW, **SIZES, "embedding_size": 300}))


def drawn(seed: int = 0) -> DrawnCheckpoint:
    return DrawnCheckpoint(Path(), PLACES, seed)


@pytest.mark.parametrize("name", [name for name, place in PLACES.items() if len(place.shape) == 2])
def test_matrices_have_the_variance_of_their_width_and_depth(name: str) -> None:
    value, place = drawn().tensor(name), PLACES[name]
    depth = int(name.split("blocks.")[1].split(".")[0]) + 1 if "blocks." in name else 0
    into_residual = depth and name.split(".")[-2] in ("attn_out", "ff_out")
    expected = (1 / place.shape[1] / (2 * depth if into_residual else 1)) ** 0.5
    assert value.shape == place.shape
    # the standard error of a deviation of n numbers is 1 / sqrt(2 n) of it
    assert float(value.std()) == pytest.approx(expected, rel=5 / (2 * value.numel()) ** 0.5)
    assert abs(float(value.mean())) < 5 * expected / value.numel() ** 0.5


def test_norms_are_one_and_biases_zero() -> None:
    config = parse_hf(LLAMA, qkv_bias=True)
    places = FAMILIES["qwen2"].weight_names(config)
    network = build(
        config, places, DrawnCheckpoint(Path(), places, 0), device=torch.device("cpu"), dtype=torch.float32, pack=False
    )
    values = dict(network.named_parameters())
    assert bool((values["layers.0.attention_norm"] == 1).all())
    assert bool((values["norm"] == 1).all())
    assert bool((values["layers.0.qkv.bias"] == 0).all())
    assert float(values["layers.0.qkv.weight"].detach().std()) > 0


def test_a_tensor_depends_on_seed_and_name_only() -> None:
    names = [name for name, place in PLACES.items() if len(place.shape) == 2]
    first, again = drawn(), drawn()
    assert all(torch.equal(first.tensor(name), again.tensor(name)) for name in reversed(names))
    values = [drawn(seed).tensor(name).flatten()[:50] for seed in (0, 1) for name in names]
    assert len({tuple(value.tolist()) for value in values}) == len(values)


def test_a_folder_without_weights_is_enough(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    with pytest.raises(WeightsError, match=r"holds no \*.safetensors file"):
        survey(tmp_path)
    found = survey(tmp_path, drawn=7)
    names = found.spec.weight_names(found.config)
    assert torch.equal(
        found.checkpoint.tensor(next(iter(names))), DrawnCheckpoint(tmp_path, names, 7).tensor(next(iter(names)))
    )
