"""Random draws played back from a recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyorder.draws import Draws, Stream
from anyorder.reference.outcome import Mismatch


@dataclass(frozen=True, slots=True)
class RecordedDraws(Draws):
    """Answers with what the published sampler drew in the same pass.

    Args:
        entries: `{"kind", "value", "call"}`, kinds `uniform` (one number per open slot, ascending), `token_ids` (one id
            per sampled slot, or per slot of the block) and `positions` (the slots chosen).
        block_length: set where token ids are recorded for every slot of a block.
    """

    entries: tuple[dict[str, Any], ...] = ()
    block_length: int | None = None

    def _value(self, kind: str, pass_index: int) -> Any:
        for entry in self.entries:
            if entry["kind"] == kind and entry["call"] == pass_index:
                return entry["value"]
        raise Mismatch(f"pass {pass_index} asks for {kind}, which the recording does not have there")

    def uniform(self, slots: Tensor, pass_index: int, stream: Stream = "token") -> Tensor:
        """See `Draws.uniform`."""
        return torch.tensor(self._value("uniform", pass_index), dtype=torch.float64)

    def tokens(self, logits: Tensor, slots: Tensor, pass_index: int) -> Tensor:
        """See `Draws.tokens`; slots that the recording did not sample get their best token, which nobody commits.

        A recording without any token ids took the best token everywhere: Dream's sampler falls back to it when sampling
        raises an error.
        """
        if not any(entry["kind"] == "token_ids" for entry in self.entries):
            return logits.argmax(-1)
        value = torch.tensor(self._value("token_ids", pass_index)).flatten()
        if self.block_length is not None:
            return value[slots % self.block_length]
        if value.shape == slots.shape:
            return value
        chosen = self.uniform(slots, pass_index) < self._probability(value.shape[0], slots, pass_index)
        ids = logits.argmax(-1)
        ids[chosen] = value
        return ids

    def _probability(self, count: int, slots: Tensor, pass_index: int) -> float:
        """A probability at which exactly `count` of the recorded uniform draws are transferred."""
        ordered = self.uniform(slots, pass_index).sort().values
        return float(ordered[count]) if count < ordered.shape[0] else 2.0

    def subset(self, score: Tensor, slots: Tensor, pass_index: int, count: int) -> Tensor:
        """See `Draws.subset`."""
        value = torch.tensor(self._value("positions", pass_index)).flatten()
        return torch.isin(slots, value)
