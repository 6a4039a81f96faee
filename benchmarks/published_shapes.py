"""Published sizes, as their config.json gives them, and checkpoints of these sizes without contents."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from anyorder.models.families import recognise

LLADA_8B: dict[str, Any] = {
    "architectures": ["LLaDAModelLM"],
    "model_type": "llada",
    "activation_type": "silu",
    "block_type": "llama",
    "d_model": 4096,
    "embedding_size": 126464,
    "include_bias": False,
    "layer_norm_type": "rms",
    "mask_token_id": 126336,
    "max_sequence_length": 4096,
    "mlp_hidden_size": 12288,
    "n_heads": 32,
    "n_kv_heads": 32,
    "n_layers": 32,
    "rms_norm_eps": 1e-5,
    "rope": True,
    "rope_theta": 500000.0,
    "torch_dtype": "bfloat16",
    "vocab_size": 126464,
    "weight_tying": False,
}
SDAR_8B: dict[str, Any] = {
    "architectures": ["SDARForCausalLM"],
    "model_type": "sdar",
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "mask_token_id": 151669,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 151936,
}
LLADA2_MINI: dict[str, Any] = {
    "architectures": ["LLaDA2MoeModelLM"],
    "model_type": "llada2_moe",
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "moe_intermediate_size": 512,
    "num_hidden_layers": 20,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 157184,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 600000,
    "partial_rotary_factor": 0.5,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "n_group": 8,
    "topk_group": 4,
    "routed_scaling_factor": 2.5,
    "first_k_dense_replace": 1,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
DIFFUSION_GEMMA: dict[str, Any] = {
    "architectures": ["DiffusionGemmaForBlockDiffusion"],
    "model_type": "diffusion_gemma",
    "canvas_length": 256,
    "dtype": "bfloat16",
    "tie_word_embeddings": True,
    "vision_config": {
        "model_type": "gemma4_vision",
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 72,
        "patch_size": 16,
        "pooling_kernel_size": 3,
        "position_embedding_size": 10240,
        "standardize": True,
        "rope_parameters": {"rope_theta": 100.0, "rope_type": "axial"},
    },
    "text_config": {
        "model_type": "diffusion_gemma_text",
        "hidden_size": 2816,
        "intermediate_size": 2112,
        "moe_intermediate_size": 704,
        "num_hidden_layers": 30,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "num_global_key_value_heads": 2,
        "head_dim": 256,
        "global_head_dim": 512,
        "num_experts": 128,
        "top_k_experts": 8,
        "vocab_size": 262144,
        "max_position_embeddings": 262144,
        "sliding_window": 1024,
        "final_logit_softcapping": 30.0,
        "hidden_activation": "gelu_pytorch_tanh",
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "use_bidirectional_attention": "vision",
    },
}
SHAPES = {
    "llada-8b": LLADA_8B,
    "sdar-8b": SDAR_8B,
    "llada2-mini": LLADA2_MINI,
    "diffusiongemma-26b-a4b": DIFFUSION_GEMMA,
}
SHARDS = {"llada-8b": 6, "sdar-8b": 5, "llada2-mini": 7, "diffusiongemma-26b-a4b": 2}
ITEM = 2
"""Bytes of a bfloat16."""


def with_layers(raw: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """The same shapes with fewer layers."""
    if "text_config" in raw:
        return {**raw, "text_config": with_layers(raw["text_config"], layers)}
    key = "n_layers" if "n_layers" in raw else "num_hidden_layers"
    return {**raw, key: layers}


def sparse_checkpoint(folder: Path, raw: Mapping[str, Any], shards: int) -> None:
    """A checkpoint of bfloat16 zeros in `folder`, in shards of about the same size, which takes no space on disk."""
    spec = recognise(raw)
    config = spec.parse(raw)
    shapes = {name: place.shape for name, place in spec.weight_names(config).items()}
    if spec.image_shapes is not None:
        shapes |= spec.image_shapes(config)
    share = sum(prod(shape) for shape in shapes.values()) // shards + 1
    parts: list[dict[str, tuple[int, ...]]] = [{} for _ in range(shards)]
    before = 0
    for name, shape in shapes.items():
        parts[before // share][name] = shape
        before += prod(shape)
    index: dict[str, str] = {}
    for number, part in enumerate(parts, 1):
        file = f"model-{number:05}-of-{shards:05}.safetensors"
        sparse_file(folder / file, part)
        index |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    (folder / "config.json").write_text(json.dumps(raw))


def sparse_file(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """One safetensors file: a header, and a hole where the numbers would be."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + ITEM * prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as handle:
        handle.write(struct.pack("<Q", len(text)) + text)
        handle.truncate(8 + len(text) + end)
