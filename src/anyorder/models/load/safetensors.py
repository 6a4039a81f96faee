"""Tensors of a checkpoint folder by name, memory-mapped one file at a time and released page by page."""

from __future__ import annotations

import json
import mmap
import struct
import warnings
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyorder.errors import WeightsError
from anyorder.ngrams import FILE

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
MAX_HEADER_BYTES = 100_000_000
"""The format's own limit; more means that the file is something else."""
PICKLES = (".bin", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True)
class Entry:
    """One tensor: where its bytes lie in which file."""

    file: MappedFile
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    num_bytes: int


class MappedFile:
    """One safetensors file, mapped read-only on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def map(self) -> mmap.mmap:
        with self.path.open("rb") as handle:
            return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)

    def entries(self) -> dict[str, Entry]:
        """Tensor name -> entry, from the header alone.

        Raises:
            WeightsError: not a safetensors file, or shorter than its header promises.
        """
        size = self.path.stat().st_size
        header, data = self._header(size)
        header.pop("__metadata__", None)
        try:
            found = {name: self._entry(name, fields, data) for name, fields in header.items()}
        except (KeyError, TypeError, ValueError) as error:
            raise WeightsError(
                f"{self.path}: damaged safetensors header ({error!r}); download the file again"
            ) from None
        end = max((entry.start + entry.num_bytes for entry in found.values()), default=data)
        if end > size:
            raise WeightsError(f"{self.path} is truncated: {size} bytes, its header needs {end}; download it again")
        return found

    def metadata(self) -> dict[str, str]:
        """The free text of the header; errors as in `entries`."""
        return self._header(self.path.stat().st_size)[0].get("__metadata__", {})

    def _header(self, size: int) -> tuple[dict[str, Any], int]:
        with self.path.open("rb") as handle:
            lead = handle.read(8)
            length = struct.unpack("<Q", lead)[0] if len(lead) == 8 else MAX_HEADER_BYTES + 1
            if length > MAX_HEADER_BYTES or 8 + length > size:
                raise WeightsError(f"{self.path} is no complete safetensors file ({size} bytes); download it again")
            try:
                header = json.loads(handle.read(length))
            except ValueError:
                raise WeightsError(f"{self.path}: its safetensors header is no JSON; download it again") from None
        if not isinstance(header, dict):
            raise WeightsError(f"{self.path}: its safetensors header is no table; download it again")
        return header, 8 + length

    def _entry(self, name: str, fields: dict[str, Any], data: int) -> Entry:
        if fields["dtype"] not in DTYPES:
            raise WeightsError(
                f"{self.path}: {name} has dtype {fields['dtype']}, which is not read; known: {', '.join(DTYPES)}. Take "
                "the checkpoint that this one was made from; `quantize` rounds it while loading"
            )
        dtype, shape = DTYPES[fields["dtype"]], tuple(fields["shape"])
        start, end = fields["data_offsets"]
        if end - start != prod(shape) * dtype.itemsize:
            raise ValueError(f"{end - start} bytes for shape {list(shape)}")
        return Entry(self, dtype, shape, data + start, end - start)


def view(entry: Entry) -> Tensor:
    """A view into the file, in the file's dtype."""
    if not prod(entry.shape):
        return torch.empty(entry.shape, dtype=entry.dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        raw = torch.frombuffer(entry.file.map, dtype=torch.uint8, count=entry.num_bytes, offset=entry.start)
    if entry.start % entry.dtype.itemsize:  # the format does not promise alignment
        raw = raw.clone()
    return raw.view(entry.dtype).view(entry.shape)


class Checkpoint:
    """All tensors of a folder.

    Args:
        folder: holds `model.safetensors`, or shards and their index, or any *.safetensors but a draft table.
    Raises:
        WeightsError: no safetensors files, a shard is missing, or a file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries: dict[str, Entry] = {}
        for path in _files(folder):
            self.entries |= MappedFile(path).entries()

    def dtype(self) -> torch.dtype:
        """Of most weights."""
        sizes: dict[torch.dtype, int] = {}
        for entry in self.entries.values():
            sizes[entry.dtype] = sizes.get(entry.dtype, 0) + entry.num_bytes
        return max(sizes, key=lambda dtype: sizes[dtype])

    def tensor(self, name: str) -> Tensor:
        """A view into the file, in the file's dtype; reading it makes its pages resident until `release`."""
        return view(self.entries[name])

    def release(self, name: str) -> None:
        """Give the resident pages of a tensor back; views stay valid and read the file again when used."""
        entry = self.entries[name]
        if not hasattr(mmap, "MADV_DONTNEED") or not entry.num_bytes:
            return
        first = entry.start - entry.start % mmap.PAGESIZE
        entry.file.map.madvise(mmap.MADV_DONTNEED, first, entry.start + entry.num_bytes - first)


def _files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        return _shards(folder, index)
    single = folder / "model.safetensors"
    files = (
        [single] if single.exists() else [path for path in sorted(folder.glob("*.safetensors")) if path.name != FILE]
    )
    if not files:
        raise WeightsError(_no_weights(folder))
    return files


def _shards(folder: Path, index: Path) -> list[Path]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError):
        raise WeightsError(f"{index} is no index of safetensors shards; download it again") from None
    if missing := [name for name in names if not (folder / name).exists()]:
        raise WeightsError(
            f"{folder}: {len(missing)} of {len(names)} shards are missing, first {missing[0]}; download them again"
        )
    return [folder / name for name in names]


def _no_weights(folder: Path) -> str:
    if any(path.suffix in PICKLES for path in folder.iterdir()):
        return (
            f"{folder} holds pickled weights only, which can run code when read; "
            "convert them to safetensors first (transformers: save_pretrained) or take a revision that has them"
        )
    return f"{folder} holds no *.safetensors file"
