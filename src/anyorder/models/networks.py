"""Which network a config describes."""

from __future__ import annotations

from anyorder.models.config import ModelConfig
from anyorder.models.dit.config import DiTConfig
from anyorder.models.dit.network import DiT
from anyorder.models.gemma.config import GemmaConfig
from anyorder.models.gemma.network import DiffusionGemma
from anyorder.models.transformer import Transformer


def network_of(config: ModelConfig) -> Transformer:
    """A network with uninitialised parameters."""
    match config:
        case DiTConfig():
            return DiT(config)
        case GemmaConfig():
            return DiffusionGemma(config)
        case _:
            return Transformer(config)
