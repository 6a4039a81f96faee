"""A frozen network that learns through an adapter: clean text is read without it, noisy tokens with it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyorder.models.adapter import Adapter
from anyorder.models.transformer import Attend, Transformer
from anyorder.training.attention import ChunkedAttention


class Trainee(nn.Module):
    """The network of a pass whose adapter is on for its noisy tokens.

    The clean tokens are the base's own (`TrainingPass.context`): their keys and values do not depend on the adapter, so
    where the attention can be split they are computed first and without gradient, which saves their backward pass.

    Args:
        network: its parameters are frozen.
        adapter: its parameters are trained.
        context: leading fed tokens that are read with the adapter off.
    """

    def __init__(self, network: Transformer, adapter: Adapter) -> None:
        super().__init__()
        self.network = network.requires_grad_(False)
        self.adapter = adapter

    def forward(
        self, ids: Tensor, positions: Tensor, attend: Attend, rows: Tensor | None = None, context: int = 0
    ) -> Tensor:
        """Hidden states of the wanted rows, [R, hidden]; see `Transformer.forward`."""
        if context and isinstance(attend, ChunkedAttention) and rows is not None:
            return self._in_phases(ids, positions, attend, rows, context)
        noisy = None if not context else torch.arange(ids.shape[0], device=ids.device) >= context
        return self.network(ids, positions, attend, rows, self.adapter.on(noisy))

    def _in_phases(
        self, ids: Tensor, positions: Tensor, attend: ChunkedAttention, rows: Tensor, context: int
    ) -> Tensor:
        first, second = attend.phases()
        with torch.no_grad():
            self.network(ids[:context], positions[:context], first, rows[:0])
        return self.network(ids[context:], positions[context:], second, rows - context, self.adapter.on())

    def head(self, hidden: Tensor) -> Tensor:
        """[R, hidden] -> logits [R, V]; the adapter leaves it as it is."""
        return self.network.head(hidden)
