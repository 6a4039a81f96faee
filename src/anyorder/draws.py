"""Counter-based randomness: a draw depends on (seed, sample, slot, pass) and on nothing else.

A request therefore gives the same answer alone and inside any batch, and on any device up to rounding of its logits.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Stream = Literal["token", "slot", "noise"]
"""Draws of one slot in one pass: which token, whether the slot is chosen, which token it becomes if not."""
CACHED = 1 << 20
"""Numbers of a matrix that are worked on at once; four times as many were a quarter slower, a quarter hardly faster."""
_STREAMS: dict[Stream, int] = {"token": 0, "slot": 1, "noise": 2}


@dataclass(frozen=True, slots=True)
class Draws:
    """The random numbers of one sample.

    Args:
        seed: the user's seed, any int64.
        sample: number of the sample under one seed (0 for the first), not a position in a batch.
    """

    seed: int = 0
    sample: int = 0

    def uniform(self, slots: Tensor, pass_index: int, stream: Stream = "token") -> Tensor:
        """One number per slot.

        Args:
            slots: [n] int64, absolute canvas slots, on any device.
            pass_index: forward pass of the request.
        Returns:
            [n] float in [0, 1), float64 where the device has it.
        """
        key = struct.pack("<qqqq", self.seed, self.sample, pass_index, _STREAMS[stream])
        start = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little", signed=True)
        bits = _mix(slots * _GOLDEN + start) >> 11 & (1 << 53) - 1
        return bits.to(wide_dtype(slots.device)) * 2.0**-53

    def tokens(self, logits: Tensor, slots: Tensor, pass_index: int) -> Tensor:
        """Sample one id per row from softmax(logits) by inverting its distribution function.

        Args:
            logits: [n, V] float; -inf rows entries are never drawn.
            slots: [n] int64, the slot of every row.
        Returns:
            [n] int64.
        """
        return self.chosen(logits.float().softmax(-1), slots, pass_index)

    def chosen(self, probabilities: Tensor, slots: Tensor, pass_index: int) -> Tensor:
        """`tokens` where the probabilities are at hand: [n, V] float, 0 where nothing may be drawn, -> [n] int64."""
        rows = cached_rows(probabilities)
        parts = zip(probabilities.split(rows), self.uniform(slots, pass_index)[:, None].split(rows), strict=True)
        return torch.cat([_invert(*part) for part in parts])

    def subset(self, score: Tensor, slots: Tensor, pass_index: int, count: int) -> Tensor:
        """Draw `count` slots without replacement with probability proportional to exp(score) (Gumbel top-k).

        Args:
            score: [n] float, log-weights; -inf is never drawn while others remain.
        Returns:
            [n] bool.
        """
        uniform = self.uniform(slots, pass_index, "slot").clamp_min(1e-300 if score.device.type != "mps" else 1e-38)
        noisy = score - (-uniform.log()).log()
        chosen = torch.zeros_like(score, dtype=torch.bool)
        return chosen.scatter_(-1, noisy.sort(descending=True, stable=True).indices[:count], True)


_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as int64: spreads neighbouring slots over the whole range


def _mix(x: Tensor) -> Tensor:
    """The finaliser of SplitMix64 on int64 tensors (products wrap, shifts are made logical by a mask)."""
    x = (x ^ (x >> 30 & (1 << 34) - 1)) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27 & (1 << 37) - 1)) * -7723592293110705685  # 0x94D049BB133111EB
    return x ^ (x >> 31 & (1 << 33) - 1)


def _invert(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """[n, V], [n, 1] -> [n] int64: where the distribution function passes `uniform`."""
    cumulated = probabilities.cumsum(-1, dtype=wide_dtype(probabilities.device))
    total = cumulated[:, -1:].contiguous()
    ids = torch.searchsorted(cumulated, (uniform * total).to(cumulated.dtype), right=True)
    # rounding of u * total to total would fall behind the last possible token
    return torch.minimum(ids, torch.searchsorted(cumulated, total)).squeeze(-1)


def cached_rows(matrix: Tensor) -> int:
    """Rows of [n, V] to work on at once, so that what a CPU makes of them stays in its cache; elsewhere all, n >= 1."""
    rows, width = matrix.shape
    return max(1, min(rows, CACHED // max(width, 1)) if matrix.device.type == "cpu" else rows)


def wide_dtype(device: torch.device) -> torch.dtype:
    """float64, or float32 where the device has no float64 (MPS)."""
    return torch.float32 if device.type == "mps" else torch.float64
