"""What `realtime` changes besides the turn: something to read early."""

from __future__ import annotations

from typing import Any

from anyorder.params import DecodeParams

FIRST_BLOCK_LENGTH = 8


def with_early_text(params: DecodeParams, decoder: str) -> DecodeParams:
    """Parameters with a short first block where the canvas is read as a whole, unless the client says how it is cut.

    Text is sent from the left, and on a whole canvas the first slots may be among the last to be decided. Models that
    read block by block keep the blocks that they were trained with.

    Args:
        decoder: the mode of the model's family.
    """
    mode = decoder if params.mode == "auto" else params.mode
    chosen: tuple[Any, ...] = (params.block_length, params.first_block_length, params.steps)
    if mode != "full" or any(value is not None for value in chosen) or not params.max_new_tokens:
        return params
    return params.replace(first_block_length=FIRST_BLOCK_LENGTH)
