"""Gemma 4's vision tower, which is transformers' own, and what leads from it into DiffusionGemma."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.errors import ModelError
from anyorder.models.config import RawConfig, required
from anyorder.models.linear import Linear

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOWER = "model.encoder.vision_tower."
EMBEDDER = "model.encoder.embed_vision."
PUBLISHED = (TOWER, EMBEDDER)
"""Beginnings of the published names of all vision tensors."""
PROJECTION = f"{EMBEDDER}embedding_projection.weight"
_NORMS = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")


@dataclass(frozen=True, kw_only=True)
class VisionConfig:
    """Sizes of the tower, and the tokens around its pictures."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    patch_size: int
    pooling: int
    """Patches along a side of the square that becomes one slot."""
    max_side: int
    """Patches along a side of an image at most."""
    rms_norm_eps: float
    clipped: bool
    standardize: bool
    begin_id: int
    image_id: int
    end_id: int
    raw: Mapping[str, Any]
    """As published, for transformers."""


def parse_vision(raw: RawConfig) -> VisionConfig | None:
    """The vision part of a config.json; None where it has none.

    Raises:
        ModelError: a size is missing, or the tower is another one.
    """
    vision = raw.get("vision_config")
    if not isinstance(vision, dict):
        return None
    if (kind := vision.get("model_type", "gemma4_vision")) != "gemma4_vision":
        raise ModelError(f"config.json has a vision tower of type {kind!r}; supported: gemma4_vision")
    heads, hidden = required(vision, "num_attention_heads"), required(vision, "hidden_size")
    return VisionConfig(
        hidden_size=hidden,
        intermediate_size=required(vision, "intermediate_size"),
        num_layers=required(vision, "num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=vision.get("num_key_value_heads") or heads,
        head_dim=vision.get("head_dim") or 64,
        patch_size=vision.get("patch_size") or 16,
        pooling=vision.get("pooling_kernel_size") or 3,
        max_side=vision.get("position_embedding_size") or 10240,
        rms_norm_eps=float(vision.get("rms_norm_eps", 1e-6)),
        clipped=bool(vision.get("use_clipped_linears")),
        standardize=bool(vision.get("standardize")),
        begin_id=raw.get("boi_token_id") or 255_999,
        image_id=raw.get("image_token_id") or 258_880,
        end_id=raw.get("eoi_token_id") or 258_882,
        raw=vision,
    )


def vision_shapes(config: VisionConfig, hidden_size: int) -> dict[str, tuple[int, ...]]:
    """Published name -> shape of all vision tensors.

    Args:
        hidden_size: of the network that reads the pictures.
    """
    hidden = config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        PROJECTION: (hidden_size, hidden),
        f"{TOWER}patch_embedder.input_proj.weight": (hidden, 3 * config.patch_size**2),
        f"{TOWER}patch_embedder.position_embedding_table": (2, config.max_side, hidden),
    }
    if config.standardize:
        shapes |= {f"{TOWER}{name}": (hidden,) for name in ("std_bias", "std_scale")}
    for index in range(config.num_layers):
        layer = f"{TOWER}encoder.layers.{index}"
        shapes |= {f"{layer}.{name}.weight": (hidden,) for name in _NORMS}
        shapes |= {f"{layer}.self_attn.{name}_norm.weight": (config.head_dim,) for name in "qk"}
        for name, shape in _products(config).items():
            shapes[f"{layer}.{name}.linear.weight"] = shape
            if config.clipped:
                shapes |= {f"{layer}.{name}.{end}put_{side}": () for end in ("in", "out") for side in ("min", "max")}
    return shapes


def _products(config: VisionConfig) -> dict[str, tuple[int, int]]:
    hidden, inner = config.hidden_size, config.intermediate_size
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    attention = {"q": (q, hidden), "k": (kv, hidden), "v": (kv, hidden), "o": (hidden, q)}
    mlp = {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
    return {f"self_attn.{name}_proj": shape for name, shape in attention.items()} | {
        f"mlp.{name}_proj": shape for name, shape in mlp.items()
    }


class Vision(nn.Module):
    """Patches of one image to what DiffusionGemma reads in its slots.

    Args:
        tower: from `empty_tower`.
        hidden_size: of the network that reads the pictures.
    """

    def __init__(self, tower: PreTrainedModel, eps: float, hidden_size: int) -> None:
        super().__init__()
        self.tower = tower
        self.eps = eps
        self.projection = Linear(tower.config.hidden_size, hidden_size)

    def forward(self, pixels: Tensor, positions: Tensor) -> Tensor:
        """[patches, numbers] and [patches, 2] -> [length, hidden]; patches that are padding count for nothing."""
        seen = self.tower(pixel_values=pixels[None], pixel_position_ids=positions[None]).last_hidden_state
        return self.projection(F.rms_norm(seen, seen.shape[-1:], None, self.eps))


def empty_tower(config: VisionConfig, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """transformers' vision tower with uninitialised parameters; no code of a checkpoint runs.

    Raises:
        ModelError: this version of transformers has none, or refuses the config.
    """
    try:
        from transformers import AutoModel, Gemma4VisionConfig  # late: text needs neither
        from transformers.initialization import no_init_weights
    except ImportError:
        raise ModelError(
            "the vision tower of Gemma 4 needs a newer transformers: pip install -U transformers"
        ) from None
    try:
        with no_init_weights(), torch.device(device):
            return AutoModel.from_config(Gemma4VisionConfig(**config.raw), dtype=dtype).eval()
    except (TypeError, ValueError, KeyError) as error:
        raise ModelError(f"transformers refuses the vision_config of config.json: {error}") from None
