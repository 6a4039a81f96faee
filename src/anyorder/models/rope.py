"""Rotary positions in the half-rotation (NeoX) layout, computed in float32 (float64 for a float64 network)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from anyorder.models.config import ModelConfig, RopeScaling
from anyorder.models.rows import in_cache


def rotation(config: ModelConfig, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines for `rotate`, made once per pass and shared by all layers.

    Args:
        positions: [T] int64.
        dtype: of the network; the result is float64 for float64, else float32.
    Returns:
        two tensors [T, 1, R], R = `config.rotated`; the first half of the sines is negated.
    """
    working = torch.float64 if dtype == torch.float64 else torch.float32
    angles = positions[:, None].to(working) * _frequencies(config, positions.device, working)  # [T, R/2]
    cos, sin = angles.cos(), angles.sin()
    if config.rope_scaling is not None and config.rope_scaling.attention_factor != 1.0:
        cos, sin = cos * config.rope_scaling.attention_factor, sin * config.rope_scaling.attention_factor
    return torch.cat((cos, cos), -1)[:, None], torch.cat((-sin, sin), -1)[:, None]


def query_scale(config: ModelConfig, positions: Tensor, dtype: torch.dtype) -> Tensor | None:
    """[T, 1, 1] in `dtype`: 1 + beta ln(1 + floor(position / original_max_context)), by which queries are multiplied.

    None where the checkpoint has no such scale. Source: Ministral 3, which has it from Llama 4.
    """
    scaling = config.rope_scaling
    if scaling is None or not scaling.query_beta:
        return None
    stretched = (positions // scaling.original_max_context).to(
        torch.float64 if dtype == torch.float64 else torch.float32
    )
    return (1 + scaling.query_beta * stretched.log1p()).to(dtype)[:, None, None]


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the leading R of D numbers of [T, H, D] heads, R as wide as `cos`; the result has the dtype of `heads`."""
    width = cos.shape[-1]
    if width < heads.shape[-1]:
        return torch.cat((rotate(heads[..., :width], cos, sin), heads[..., width:]), -1)
    trained = heads.device.type == "cpu" and torch.is_grad_enabled() and heads.requires_grad
    return _Rotate.apply(heads, cos, sin) if trained else _rotated(heads, cos, sin)


def _rotated(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    # rolling by half a head and signed sines: the usual cat((-x2, x1)) without its two extra copies
    return torch.addcmul(heads * cos, heads.roll(heads.shape[-1] // 2, -1), sin).to(heads.dtype)


class _Rotate(torch.autograd.Function):
    """Its gradient is turned back by the same angles: sines of the other sign."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _by_rows(heads, cos, sin)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return _by_rows(grad_outputs[0], cos, -sin), None, None


def _by_rows(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    result = torch.empty_like(heads)
    for each, c, s, out in zip(*map(in_cache, (heads, cos, sin, result)), strict=True):
        out.copy_(_rotated(each.to(cos.dtype), c, s))
    return result


@lru_cache(maxsize=64)
def _frequencies(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):  # the cached tensor must also serve a later training pass
        exponents = torch.arange(0, config.rotated, 2, device=device).to(dtype) / config.rotated
        frequencies = 1.0 / config.rope_theta**exponents
        return _scaled(frequencies, config)


def _scaled(frequencies: Tensor, config: ModelConfig) -> Tensor:
    scaling = config.rope_scaling
    if scaling is None:
        return frequencies
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    if scaling.kind == "llama3":
        return _llama3(frequencies, scaling)
    return _yarn(frequencies, scaling, config)


def _llama3(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    """Long waves are stretched, short ones kept, a linear blend between. Source: Llama 3.1 (reference code)."""
    turns = scaling.original_max_context * frequencies / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies * (keep + (1 - keep) / scaling.factor)


def _yarn(frequencies: Tensor, scaling: RopeScaling, config: ModelConfig) -> Tensor:
    """NTK-by-parts: as `_llama3` with the ramp linear in the dimension. Source: arXiv:2309.00071, section 3.2."""
    low = _yarn_dimension(scaling.beta_fast, scaling, config)
    high = _yarn_dimension(scaling.beta_slow, scaling, config)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.rotated - 1)
    width = high - low or 0.001
    index = torch.arange(len(frequencies), device=frequencies.device, dtype=frequencies.dtype)
    stretch = ((index - low) / width).clamp(0, 1)
    return frequencies * (1 - stretch) + frequencies / scaling.factor * stretch


def _yarn_dimension(rotations: float, scaling: RopeScaling, config: ModelConfig) -> float:
    """Dimension whose frequency makes that many rotations within the original context."""
    wavelengths = scaling.original_max_context / (rotations * 2 * math.pi)
    return config.rotated * math.log(wavelengths) / (2 * math.log(config.rope_theta))
