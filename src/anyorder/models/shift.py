"""Self-check of a family's shift: do the logits of position i predict token i, or token i + 1?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from anyorder.errors import ModelError, ParameterError
from anyorder.models.attention import attend_alone, block_mask
from anyorder.models.loaded import LoadedModel

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

    Costs one small forward per token; the checkpoint's own attention regime is used.

    Args:
        ids: tokens of a text that the model should know, at least three; None: an English sentence.
    Raises:
        ParameterError: no mask id, or no tokenizer and no ids.
    """
    if model.mask_token_id is None:
        raise ParameterError("the shift check needs a mask token; pass mask_token_id", param="mask_token_id")
    text = torch.tensor(_sentence(model) if ids is None else list(ids), device=model.device)
    mask = block_mask(len(text), model.spec.attention, model.block_length or 1)
    attend = attend_alone(None if mask is None else mask.to(model.device))
    positions = torch.arange(len(text), device=model.device)
    found: list[Tensor] = []
    for place in range(1, len(text)):
        canvas = text.clone()
        canvas[place] = model.mask_token_id
        logits = model.network.head(model.network(canvas, positions, attend)[place - 1 : place + 1])
        found.append(logits.log_softmax(-1)[:, text[place]])  # [2]: from the row before, from its own
    shifted, unshifted = torch.stack(found).mean(0).tolist()
    return ShiftReport(
        declared=model.spec.shift, shifted=shifted, unshifted=unshifted, vocab_size=model.config.vocab_size
    )


def _sentence(model: LoadedModel) -> list[int]:
    if model.tokenizer is None:
        raise ParameterError("the shift check needs a tokenizer; this checkpoint has none, pass ids", param="ids")
    return model.tokenizer.encode_text(SENTENCE, bos=True)
