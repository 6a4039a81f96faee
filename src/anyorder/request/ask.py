"""One request, settled with its model: what every decoder is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyorder.canvas import NO_MASK, Canvas
from anyorder.decoders.choose import Chooser
from anyorder.errors import ModelError
from anyorder.params import DecodeParams

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What every decoder of a request is made from."""

    params: DecodeParams
    """From `resolve`."""
    model: LoadedModel
    canvas: Canvas
    """The prompt; the answer's slots are not open yet."""
    chooser: Chooser
    end: int
    """First column behind the answer."""
    stop_ids: tuple[int, ...]
    cached: int
    """Leading columns whose keys and values the caller still has."""


def mask_id(params: DecodeParams, model: LoadedModel) -> int:
    """The id fed for open slots; causal decoding never feeds one.

    Raises:
        ModelError: the mode needs a mask token and the model has none.
    """
    if model.mask_token_id is not None:
        return model.mask_token_id
    if params.mode == "causal" or model.spec.noise == "uniform":
        return NO_MASK
    raise ModelError(f"{model.source} has no mask token, which mode {params.mode!r} needs; pass mask_token_id to load")
