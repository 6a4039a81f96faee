"""What a decoder wants of one forward pass: which tokens to feed, what they may see, which rows of logits come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from anyorder.pictures import Placed

Attention = Literal["bidirectional", "block", "causal"]
Phase = Literal["prefill", "denoise", "write"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Branches:
    """What the last N tokens of a window are where they go on from the text in several ways at once.

    Their keys and values lie in the window's columns as always, but their place in the text is another: tokens of
    different branches share positions and do not see each other.
    """

    positions: Tensor  # [N] int64, RoPE positions
    sees: Tensor  # [N, N] bool, which of them each one sees, itself included; all of them see the columns before them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """A contiguous run of canvas columns fed to the model in one pass.

    Column c of the canvas has RoPE position c, and its keys and values are written to column c of the request's KV
    storage. A fed token sees the columns 0 to `visible - 1` (those outside the window from storage) as far as
    `attention` allows: all of them (`bidirectional`), those of its own and of earlier blocks, a block being
    `block_length` columns counted from column 0 (`block`), or those up to its own (`causal`).
    Where a block is denoised behind text that the causal mode reads, the tokens from `adapted` on are the noisy ones:
    they see everything visible, whatever `attention` says of the others, and an adapter is on for them if there is one.
    Every cache scheme is one choice of `start` and `visible`: see `anyorder.cache.schemes`.
    """

    ids: Tensor  # [T] int64, on the CPU
    start: int  # column of ids[0]
    visible: int  # columns that exist for this pass; start + T <= visible
    rows: Tensor  # [R] int64, indices into ids whose logits are wanted; may be empty
    attention: Attention
    block_length: int = 1  # only read when attention is "block"
    phase: Phase = "denoise"
    adapted: int | None = None  # index into ids: from here on an adapter is on, and all that is visible is seen
    context: int | None = None  # a block sees no column that is further than this before its end; None: all
    soft: Tensor | None = None  # [n, hidden], on the device: what the tokens from `adapted` on were expected to be
    stores: bool = True  # False: nothing outside the window is seen and no K/V need be kept
    branches: Branches | None = None  # only with attention "causal", and visible up to the window's end
    pictures: tuple[Placed, ...] = ()  # those with fed columns: their vectors are fed, and each is seen whole by itself
    moved: Tensor | None = None  # [M] int64: stored columns whose K/V are first moved to start - M, ..., start - 1

    @property
    def end(self) -> int:
        """First column behind the window."""
        return self.start + self.ids.shape[0]

    def picturing(self, pictures: Sequence[Placed]) -> Window:
        """The same window with those of these pictures that it feeds a column of."""
        fed = tuple(placed for placed in pictures if placed.start < self.end and placed.end > self.start)
        return replace(self, pictures=fed) if fed else self

    def wanting(self, rows: Tensor) -> Window:
        """The same window with other rows of logits wanted."""
        return replace(self, rows=rows)

    def showing(self, columns: Tensor, ids: Tensor) -> Window:
        """The same window with other tokens in some columns."""
        shown = self.ids.clone()
        shown[columns - self.start] = ids
        return replace(self, ids=shown)
