"""Tiny checkpoints and the plainest way of running one, shared by the tests of `anyorder.models`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from anyorder.models.attention import attend_alone
from anyorder.models.families import recognise
from anyorder.models.transformer import Transformer

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "max_position_embeddings": 64,
    "rms_norm_eps": 2.0**-17,  # exact in float32, as GGUF stores it
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


def random_tensors(raw: Mapping[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Weights under their published names."""
    spec = recognise(raw)
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(place.shape, generator=generator) * (0.2 if len(place.shape) > 1 else 1.0)
        for name, place in spec.weight_names(spec.parse(raw)).items()
    }


def write_checkpoint(folder: Path, raw: Mapping[str, Any] = LLAMA, tensors: Mapping[str, Tensor] | None = None) -> Path:
    """A checkpoint folder with config.json and model.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    save_file(dict(random_tensors(raw) if tensors is None else tensors), folder / "model.safetensors")
    return folder


def logits(network: Transformer, ids: Tensor, mask: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
    """[T] ids of one sequence -> [T, V] logits; `mask` [T, T] bool or None for everything."""
    positions = torch.arange(len(ids)) if positions is None else positions
    return network.head(network(ids, positions, attend_alone(mask)))


def causal(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def write_bpe(folder: Path, added: Sequence[Mapping[str, Any]] = (), *, template: str | None = None) -> None:
    """vocab.json and merges.txt of a byte-level vocabulary (no merges but two), with tokenizer_config.json."""
    from tokenizers.pre_tokenizers import ByteLevel

    pieces = [*sorted(ByteLevel.alphabet()), "he", "ll"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({piece: index for index, piece in enumerate(pieces)}), "utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\nh e\nl l\n", "utf-8")
    config: dict[str, Any] = {
        "tokenizer_class": "DreamTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_dream.DreamTokenizer", None]},
        "added_tokens_decoder": {str(len(pieces) + index): dict(token) for index, token in enumerate(added)},
    }
    if template is not None:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")


BYTES = 256 + 2
"""Ids below the added tokens of `write_bpe`."""
