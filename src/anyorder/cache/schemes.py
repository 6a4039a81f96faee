"""Cache schemes: which columns a pass feeds and which it reads from storage. Pure arithmetic on column numbers.

A full-canvas scheme decides between the whole canvas, the block with everything behind it, and the block alone. A block
scheme decides between everything so far, the block, and the sub-block. Columns that are visible but not fed are read as
they were last computed, which is exact only if nothing they depend on has changed since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FullScheme = Literal["none", "prefix", "dual"]
BlockScheme = Literal["none", "block", "sub_block"]


@dataclass(frozen=True, slots=True)
class SchemeInfo:
    """What a scheme promises."""

    name: str
    exact: bool  # the logits are those of a pass without cache
    summary: str
    source: str


SCHEMES: dict[str, SchemeInfo] = {
    info.name: info
    for info in (
        SchemeInfo("none", True, "every pass computes every visible column", "the published uncached samplers"),
        SchemeInfo("block", True, "finished blocks and the prompt are kept; earlier blocks never see later ones",
                   "BD3-LM, arXiv:2503.09573; SDAR; Fast-dLLM v2"),
        SchemeInfo("prefix", False, "columns left of the block are kept from the block's first pass",
                   "Fast-dLLM, arXiv:2505.22618"),
        SchemeInfo("dual", False, "all columns outside the block are kept from the block's first pass",
                   "Fast-dLLM, arXiv:2505.22618"),
        SchemeInfo("sub_block", False, "as block, and inside the block all columns outside the sub-block are kept",
                   "Fast-dLLM v2, arXiv:2509.26328"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """Columns `start` to `end - 1`."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def full_canvas_span(scheme: FullScheme, block: Span, canvas: Span, *, first_pass: bool) -> Span:
    """Columns that a pass over a bidirectional canvas feeds; all of the canvas is visible to it.

    Args:
        first_pass: True for the first pass of a block, which refreshes every column.
    """
    if scheme == "none" or first_pass:
        return canvas
    return Span(block.start, canvas.end) if scheme == "prefix" else block


def block_span(scheme: BlockScheme, sub_block: Span, block: Span, *, refresh: bool) -> Span:
    """Columns that a denoising pass of a block-causal model feeds; everything up to the block's end is visible.

    Args:
        refresh: the sub-block's first slot is open, or the block was not computed yet: its neighbours are stale.
    """
    if scheme == "none":
        return Span(0, block.end)
    return sub_block if scheme == "sub_block" and not refresh else block
