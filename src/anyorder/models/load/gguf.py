"""GGUF files of Llama and Qwen models, dequantised once into a cached checkpoint folder in the published layout."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from anyorder.errors import ModelError, WeightsError
from anyorder.models.load.cache import cached
from anyorder.models.load.gguf_tokenizer import write_tokenizer
from anyorder.models.load.write import write_safetensors

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

FORMAT = 1
"""Raised when the conversion changes, so that old cache entries are not used."""
SMALL = 1_000_000_000
"""Up to so many parameters the dequantised values are kept in float32; above, rounded to bfloat16 to halve the disk."""

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
GLOBAL_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def converted(path: Path) -> Path:
    """Checkpoint folder made from a GGUF file; made once, then found in the cache.

    Raises:
        ModelError: the file is damaged, of an unsupported architecture, or the cache cannot be written.
    """
    state = path.stat()
    identity = f"{FORMAT}|{path.resolve()}|{state.st_size}|{state.st_mtime_ns}"
    key = f"{path.stem}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    return cached(key, lambda folder: convert(path, folder))


def convert(path: Path, folder: Path) -> None:
    """Write config.json, model.safetensors and the tokenizer's files into an existing folder."""
    reader = _read(path)
    names = {_published_name(tensor.name): tensor for tensor in reader.tensors}
    config = gguf_config(reader, tied="lm_head.weight" not in names)
    dtype = torch.float32 if sum(int(t.n_elements) for t in names.values()) <= SMALL else torch.bfloat16
    shapes = {name: _shape(tensor) for name, tensor in names.items()}
    write_safetensors(folder / "model.safetensors", shapes, dtype, lambda name: _values(names[name], config))
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    write_tokenizer(path, reader, folder)


def _read(path: Path) -> GGUFReader:
    from gguf import GGUFReader

    try:
        return GGUFReader(path)
    except (ValueError, IndexError, KeyError, OSError) as error:
        raise WeightsError(f"{path} is no complete GGUF file ({error}); download it again") from None


def gguf_config(reader: GGUFReader, *, tied: bool) -> dict[str, Any]:
    """The metadata as a published config.json.

    Raises:
        ModelError: the architecture or a setting is not supported, or a size is missing.
    """
    arch = field(reader, "general.architecture")
    if arch not in ARCHITECTURES:
        raise ModelError(f"GGUF architecture {arch!r} is not supported; supported: {', '.join(ARCHITECTURES)}")

    def get(key: str) -> Any:
        return field(reader, f"{arch}.{key}")

    if get("expert_count"):
        raise ModelError(f"GGUF architecture {arch!r} with experts is not supported")
    heads, hidden = get("attention.head_count"), get("embedding_length")
    config = {
        "architectures": [ARCHITECTURES[arch]],
        "model_type": arch,
        "hidden_size": hidden,
        "intermediate_size": get("feed_forward_length"),
        "num_hidden_layers": get("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": get("attention.head_count_kv"),
        "head_dim": get("attention.key_length"),
        "max_position_embeddings": get("context_length"),
        "rms_norm_eps": get("attention.layer_norm_rms_epsilon"),
        "rope_theta": get("rope.freq_base"),
        "rope_scaling": _scaling(get),
        "vocab_size": next(_shape(tensor)[0] for tensor in reader.tensors if tensor.name == "token_embd.weight"),
        "tie_word_embeddings": tied,
        "bos_token_id": field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": field(reader, "tokenizer.ggml.eos_token_id"),
    }
    return {key: value for key, value in config.items() if value is not None}


def _scaling(get: Callable[[str], Any]) -> dict[str, Any] | None:
    kind = get("rope.scaling.type")
    if kind in (None, "none"):
        return None
    table = {
        "rope_type": kind,
        "factor": get("rope.scaling.factor"),
        "original_max_position_embeddings": get("rope.scaling.original_context_length"),
        "attention_factor": get("rope.scaling.attn_factor"),
    }
    return {key: value for key, value in table.items() if value is not None}


def field(reader: GGUFReader, key: str) -> Any:
    """A metadata value as a Python object; None when the file lacks it."""
    found = reader.fields.get(key)
    return None if found is None else found.contents()


def _published_name(name: str) -> str:
    if name in GLOBAL_NAMES:
        return GLOBAL_NAMES[name]
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if match is None or match[2] not in LAYER_NAMES:
        # rope_freqs.weight is the usual one: it stretches frequencies in a way the metadata does not name
        raise ModelError(f"GGUF tensor {name!r} is not supported; load the model's safetensors instead")
    return f"model.layers.{match[1]}.{LAYER_NAMES[match[2]]}.{match[3]}"


def _shape(tensor: ReaderTensor) -> tuple[int, ...]:
    return tuple(int(size) for size in reversed(tensor.shape))  # GGUF counts from the fastest dimension


def _values(tensor: ReaderTensor, config: dict[str, Any]) -> torch.Tensor:
    """Dequantised values in the published order, float32."""
    from gguf import dequantize

    try:
        values = dequantize(tensor.data, tensor.tensor_type).reshape(_shape(tensor))
    except (NotImplementedError, ValueError) as error:
        raise WeightsError(f"GGUF tensor {tensor.name!r} cannot be dequantised: {error}") from None
    if config["model_type"] == "llama" and (heads := _rotary_heads(tensor.name, config)):
        values = _unpermute(values, heads)
    return torch.from_numpy(np.array(values, dtype=np.float32, copy=True))


def _rotary_heads(name: str, config: dict[str, Any]) -> int | None:
    """Heads of a query or key projection, whose rows Llama GGUF files keep in interleaved order."""
    if ".attn_q." in name:
        return config["num_attention_heads"]
    return config.get("num_key_value_heads", config["num_attention_heads"]) if ".attn_k." in name else None


def _unpermute(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows (head, pair, half) -> (head, half, pair): from adjacent rotation pairs to half rotation."""
    pairs = values.shape[0] // heads // 2
    return values.reshape(heads, pairs, 2, -1).swapaxes(1, 2).reshape(values.shape)
