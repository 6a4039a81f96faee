"""What `anyorder.load` returns: the network with everything that was resolved and checked about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from anyorder.models.adapter import Adapter
from anyorder.models.config import ModelConfig
from anyorder.models.spec import FamilySpec
from anyorder.models.tokenizer import Tokenizer
from anyorder.models.transformer import Transformer
from anyorder.ngrams import NgramTable

if TYPE_CHECKING:
    from anyorder.models.load.images import ImageReader


@dataclass(kw_only=True)
class LoadedModel:
    """A checkpoint ready to decode; ids here are the resolved ones, whatever the family's defaults say."""

    network: Transformer
    adapter: Adapter | None = None
    """On for denoising and off for the causal mode; None: the network denoises as it is."""
    config: ModelConfig
    spec: FamilySpec
    tokenizer: Tokenizer | None
    """None when the folder has none: token ids only."""
    mask_token_id: int | None
    """Argument, else config.json, else the tokenizer's, else the family's."""
    stop_ids: tuple[int, ...]
    """End-of-answer ids, the end-of-text id of config.json first."""
    edit_ids: tuple[int, int] | None = None
    """Control tokens that delete a token and insert one (LLaDA2.2); None: it knows none."""
    block_length: int | None
    """Argument, else config.json, else the family's; None: free."""
    images: ImageReader | None = None
    """From images to what the network reads; None where the checkpoint has no vision tower."""
    ngrams: NgramTable | None = None
    """What the model writes, counted, for drafts; None where nothing like it lies beside the weights."""
    source: str
    """Path or hub id, as given."""

    @property
    def device(self) -> torch.device:
        return self.network.device

    @property
    def dtype(self) -> torch.dtype:
        return self.network.dtype
