"""Pictures inside a prompt: what a vision tower reads, and the slots that it fills."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Picture:
    """A part of an encoded prompt: one image, cut into patches, that takes `length` slots."""

    length: int
    """Slots: one for each vector that the vision tower makes of it."""
    token_id: int
    """Stands in its slots; what is fed there are the vectors."""
    pixels: Tensor
    """[patches, numbers] float32, on the CPU."""
    positions: Tensor
    """[patches, 2] int64: column and row of each patch; -1 where it is padding."""

    digest: bytes
    """Of `pixels` and `positions`; see `digest_of`."""

    @property
    def keys(self) -> list[int]:
        """For each slot a number below 0 that depends on the image, as an id does on a token: equal ids of different
        images must not be taken for the same text."""
        slots = (hashlib.sha256(self.digest + slot.to_bytes(4)).digest() for slot in range(self.length))
        return [-1 - (int.from_bytes(slot[:8]) >> 1) for slot in slots]


def digest_of(pixels: Tensor, positions: Tensor) -> bytes:
    """What tells the patches of one image from those of another."""
    digest = hashlib.sha256(repr(tuple(pixels.shape)).encode())
    for tensor in (pixels, positions):
        digest.update(tensor.contiguous().numpy().data)
    return digest.digest()


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A picture on a canvas."""

    picture: Picture
    start: int
    """Its first column."""

    @property
    def end(self) -> int:
        """First column behind it."""
        return self.start + self.picture.length
