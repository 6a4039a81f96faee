"""Streaming writer of one safetensors file: only one tensor is in memory at a time."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from anyorder.models.load.safetensors import DTYPES


def write_safetensors(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    dtype: torch.dtype,
    values: Callable[[str], Tensor],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors of one dtype.

    Args:
        shapes: name -> shape; their order is the order in the file.
        values: name -> CPU tensor of that shape, any dtype; called once per name.
        metadata: free text for the header.
    """
    code = next(code for code, known in DTYPES.items() if known == dtype)
    header: dict[str, object] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + prod(shape) * dtype.itemsize
        header[name] = {"dtype": code, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # keeps the data aligned
    with path.open("wb") as handle:
        handle.write(struct.pack("<Q", len(text)) + text)
        for name in shapes:
            values(name).to(dtype).contiguous().flatten().view(torch.uint8).numpy().tofile(handle)
