"""What a request needs before it runs: columns of storage, tokens per pass, and what its kept prefix depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyorder.params import DecodeParams
from anyorder.request.drafts import BLOCK_DRAFT, LOOKUP_LENGTH, MASK_GROUPS, MASKS, TREE_NODES
from anyorder.window import Attention

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel


def stored_columns(params: DecodeParams, end: int) -> int:
    """Columns of key and value storage that a canvas of `end` slots comes to need; 0 if nothing is stored."""
    if params.cache == "none":
        return 0
    if params.draft in ("ngram", "denoiser"):
        end += params.draft_length or TREE_NODES  # branches lie side by side
    if params.draft == "denoiser":
        end += MASK_GROUPS * MASKS
    block = params.block_length if params.mode == "block" and params.block_length else 1
    if params.t_max is not None:  # canvases of noise begin anywhere, and the last one is fed whole
        return end + block
    return -(-end // block) * block


def exact_prefix(params: DecodeParams, model: LoadedModel) -> tuple[Attention, int] | None:
    """What the keys and values of finished leading columns depend on besides their ids: (attention, block length).

    None if nothing is stored, or what is stored depends on what stands behind it. Where the attention is "block", only
    whole blocks are finished.
    """
    if params.mode == "full" or params.cache == "none":
        return None
    if params.mode == "causal" or model.spec.attention == "causal":
        return "causal", 1
    assert params.block_length is not None
    return "block", params.block_length


def widest_pass(params: DecodeParams, end: int, *, holes: int) -> int:
    """Tokens that one pass feeds at most, once the columns of the prompt are stored.

    Args:
        end: slots of the whole canvas.
        holes: slots to be filled in the prompt; the text behind them is fed when they are filled.
    """
    if params.cache == "none" or params.mode == "full" or holes:
        return end * (2 if params.cfg_scale or params.measure_drift else 1) + (params.block_length or 0)
    shadow = end if params.measure_drift else 0
    if params.mode == "block":
        block = params.block_length or 1
        return block * (2 + min(params.edit_blocks, -(-end // block))) + shadow
    most = {"lookup": LOOKUP_LENGTH, "block": BLOCK_DRAFT}.get(params.draft)
    drafted = stored_columns(params, end) - end if most is None else params.draft_length or most
    return 1 + drafted + shadow
