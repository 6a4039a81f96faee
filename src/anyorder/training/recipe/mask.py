"""The mask token of a recipe: one that the model has, or a new one behind its vocabulary."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import tokenizers
import torch
from tokenizers import AddedToken
from torch import Tensor, nn

from anyorder.errors import ParameterError
from anyorder.models.linear import Linear
from anyorder.models.load.survey import Survey
from anyorder.models.tokenizer import Tokenizer
from anyorder.models.transformer import Embedding, Transformer
from anyorder.training.recipe.spec import NEW, OWN

NEW_TOKEN = "<|mask|>"
"""String of a new mask token, as Dream calls its own."""


@dataclass(frozen=True, kw_only=True)
class MaskToken:
    """What masked tokens are fed as."""

    token_id: int
    vocab_size: int
    """Rows that the embedding table needs."""
    text: str | None = None
    """String to be added to the tokenizer; None: it stays as it is."""
    untrained: bool
    """The row means nothing yet: it begins as the mean of the table."""


def resolve(named: int | str, found: Survey) -> MaskToken:
    """The mask token that a recipe names.

    Raises:
        ParameterError: the model has no such token.
    """
    size, denoises = found.config.vocab_size, found.spec.attention != "causal"
    if named == NEW:
        return _new(found)
    if named == OWN:
        if found.mask_token_id is None:
            raise ParameterError(
                f"{found.source} has no token that could be the mask; set model.mask_token to one it hardly needs, "
                'or to "new" if the whole model is trained'
            )
        return MaskToken(token_id=found.mask_token_id, vocab_size=size, untrained=not denoises)
    token_id = named if isinstance(named, int) else _id_of(named, found.tokenizer)
    if token_id is None or not 0 <= token_id < size:
        allowed = f'"own", "new", an id below {size}, or a token of its vocabulary'
        raise ParameterError(f"`model.mask_token` must be {allowed}, got {json.dumps(named)}")
    return MaskToken(token_id=token_id, vocab_size=size, untrained=token_id != found.mask_token_id or not denoises)


def _id_of(text: str, tokenizer: Tokenizer | None) -> int | None:
    return None if tokenizer is None else tokenizer.token_id(text)


def _new(found: Survey) -> MaskToken:
    size, tokenizer = found.config.vocab_size, found.tokenizer
    if tokenizer is None:
        return MaskToken(token_id=size, vocab_size=size + 1, untrained=True)
    if tokenizer.token_id(NEW_TOKEN) is not None:
        raise ParameterError(
            f'`model.mask_token` "new" adds {NEW_TOKEN!r}, which this vocabulary has; name it instead of "new"'
        )
    token_id = with_token(tokenizer.files.backend, NEW_TOKEN).token_to_id(NEW_TOKEN)
    assert token_id is not None
    return MaskToken(token_id=token_id, vocab_size=max(size, token_id + 1), text=NEW_TOKEN, untrained=True)


def with_token(backend: tokenizers.Tokenizer, text: str) -> tokenizers.Tokenizer:
    """A copy of a tokenizer with one more control token, whose id is the first one behind its vocabulary."""
    copy = tokenizers.Tokenizer.from_str(backend.to_str())
    copy.add_special_tokens([AddedToken(text, special=True, normalized=False)])
    return copy


@torch.no_grad()
def settle(network: Transformer, mask: MaskToken) -> None:
    """Give a mask token its row in the embedding table and in the output head, in place.

    The rest of both is as it was; a row that means nothing yet becomes the mean of the others.
    """
    assert isinstance(network.embed, Embedding)
    assert isinstance(network.output, Linear)
    tied = network.output.weight is network.embed.weight
    network.embed.weight = _grown(network.embed.weight, mask)
    network.output.weight = network.embed.weight if tied else _grown(network.output.weight, mask)
    network.config = replace(network.config, vocab_size=mask.vocab_size)


def mean_embedding(network: Transformer) -> Tensor:
    """[hidden] float32, where the embedding of a new token begins."""
    assert isinstance(network.embed, Embedding)
    return network.embed.weight.detach().mean(0, dtype=torch.float32)


def _grown(table: nn.Parameter, mask: MaskToken) -> nn.Parameter:
    """[V, hidden] -> [mask.vocab_size, hidden]"""
    mean = table.mean(0, dtype=torch.float32).to(table.dtype)
    new = torch.cat((table.detach(), mean.expand(mask.vocab_size - table.shape[0], -1)))
    if mask.untrained:
        new[mask.token_id] = mean
    return nn.Parameter(new, requires_grad=table.requires_grad)


def named_in_config(raw: dict[str, Any], mask: MaskToken) -> dict[str, Any]:
    """A config.json that names the mask token and has its row."""
    sizes = {key: mask.vocab_size for key in ("vocab_size", "embedding_size") if key in raw}
    return {**raw, **sizes, "mask_token_id": mask.token_id}
