"""From a checkpoint's tensors to the vision tower, one tensor at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from anyorder.models.gemma.vision import PROJECTION, PUBLISHED, TOWER, Vision, VisionConfig, empty_tower, vision_shapes

if TYPE_CHECKING:
    from anyorder.models.load.safetensors import Checkpoint


def has_vision(checkpoint: Checkpoint) -> bool:
    """Does a checkpoint hold any tensor of a vision tower?"""
    return any(name.startswith(PUBLISHED) for name in checkpoint.entries)


def read_vision(
    config: VisionConfig, hidden_size: int, checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype
) -> Vision:
    """The vision tower with its weights, whose names and shapes must have passed `check_tensors`.

    Args:
        hidden_size: of the network that reads the pictures.
    Raises:
        ModelError: transformers has no such tower.
    """
    vision = Vision(empty_tower(config, device, dtype), config.rms_norm_eps, hidden_size)
    vision.projection.weight = nn.Parameter(torch.empty(vision.projection.weight.shape, dtype=dtype, device=device))
    tensors = {f"{TOWER}{name}": tensor for name, tensor in vision.tower.state_dict(keep_vars=True).items()}
    tensors[PROJECTION] = vision.projection.weight
    with torch.no_grad():
        for name in vision_shapes(config, hidden_size):
            tensors[name].copy_(checkpoint.tensor(name))
            checkpoint.release(name)
    return vision.eval().requires_grad_(False)
