"""Self-check of a family's shift: do the logits of position i predict token i, or token i + 1?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from anyorder.errors import ModelError, ParameterError
from anyorder.models.attention import block_mask, sdpa
from anyorder.models.loaded import LoadedModel
from anyorder.models.moe import Blocks
from anyorder.models.transformer import Attend

SENTENCE = "The sun rises in the east and sets in the west."
CLEAR = 1.0
"""Nats by which one reading must beat the other, and uniform guessing, to be believed."""


@dataclass(frozen=True, kw_only=True)
class ShiftReport:
    """Mean log-probability (nats) of the true token at each masked place, read in both ways."""

    declared: bool
    """What the family or the user says."""
    shifted: float
    """Read from the position before."""
    unshifted: float
    """Read from the masked position itself."""
    vocab_size: int

    @property
    def measured(self) -> bool | None:
        """The convention that clearly wins; None when neither does (untrained weights, another language)."""
        best = max(self.shifted, self.unshifted)
        if abs(self.shifted - self.unshifted) < CLEAR or best < CLEAR - log(self.vocab_size):
            return None
        return self.shifted > self.unshifted

    @property
    def contradicts(self) -> bool:
        return self.measured is not None and self.measured != self.declared

    def require(self) -> None:
        """Raise ModelError if the other convention clearly wins."""
        if self.contradicts:
            raise ModelError(
                f"the logits read as shift={self.measured} (log-probability {self.shifted:.2f} shifted, "
                f"{self.unshifted:.2f} unshifted), expected shift={self.declared}; pass shift={self.measured}"
            )


@torch.inference_mode()
def check_shift(model: LoadedModel, ids: Sequence[int] | None = None) -> ShiftReport:
    """Mask one token of a known sentence at a time and see which reading of the logits finds it again.

    Costs one forward pass over as many copies of the sentence as it has tokens; the checkpoint's own attention regime
    is used.

    Args:
        ids: tokens of a text that the model should know, at least three; None: an English sentence.
    Raises:
        ParameterError: no mask id, or no tokenizer and no ids.
    """
    if model.mask_token_id is None:
        raise ParameterError("the shift check needs a mask token; pass mask_token_id", param="mask_token_id")
    text = torch.tensor(_sentence(model) if ids is None else list(ids), device=model.device)
    places = torch.arange(1, len(text), device=model.device)
    copies = text.repeat(len(places), 1)  # [P, L], each with another token masked
    copies[places - 1, places] = model.mask_token_id
    mask = block_mask(len(text), model.spec.attention, model.block_length or 1)
    attend = _attend_copies(len(text), None if mask is None else mask.to(model.device))
    positions = torch.arange(len(text), device=model.device).repeat(len(places))
    hidden = model.network(copies.flatten(), positions, attend, **_shared(model, len(text), len(places)))
    own = (places - 1) * len(text) + places
    truth = text[places].unsqueeze(-1)
    shifted, unshifted = (
        float(model.network.head(hidden[rows]).log_softmax(-1).gather(-1, truth).mean()) for rows in (own - 1, own)
    )
    return ShiftReport(
        declared=model.spec.shift, shifted=shifted, unshifted=unshifted, vocab_size=model.config.vocab_size
    )


def _shared(model: LoadedModel, length: int, copies: int) -> dict[str, Blocks]:
    """The blocks of tokens that share experts, for a network where they do."""
    moe = model.config.moe
    if moe is None or moe.block_experts is None:
        return {}
    return {"blocks": Blocks.of([torch.arange(length)] * copies, moe.block_length, model.device)}


def _attend_copies(length: int, mask: Tensor | None) -> Attend:
    """Attention inside each of the equally long sequences of a packed row; for a forward that wants every row."""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = zip(q.split(length), k.split(length), v.split(length), strict=True)
        return torch.cat([sdpa(a, b.transpose(0, 1), c.transpose(0, 1), mask) for a, b, c in parts])

    return attend


def _sentence(model: LoadedModel) -> list[int]:
    if model.tokenizer is None:
        raise ParameterError("the shift check needs a tokenizer; this checkpoint has none, pass ids", param="ids")
    return model.tokenizer.encode_text(SENTENCE, bos=True)
