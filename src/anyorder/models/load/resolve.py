"""Mask id, stop ids and block length of a checkpoint: who names them, and whether the tokenizer agrees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyorder.errors import ModelError, ParameterError, TokenizerMismatch
from anyorder.models.config import ModelConfig
from anyorder.models.spec import FamilySpec
from anyorder.models.tokenizer import Tokenizer


def resolve_mask(
    argument: int | None, raw: Mapping[str, Any], config: ModelConfig, spec: FamilySpec, tokenizer: Tokenizer | None
) -> int | None:
    """The mask id: argument, else config.json, else the tokenizer's, else the family's; None with uniform noise.

    An autoregressive family has no mask token. So that it can be decoded in any order all the same, a token that
    hardly occurs in text stands in: the family's `spare_tokens` (SmolLM2: id 4, `<reponame>`), else the first row of
    the embedding table behind the vocabulary (Qwen), else None.

    Raises:
        ParameterError: the argument is no row of the embedding table.
        TokenizerMismatch: the id is no row of the table, or the tokenizer calls it something else.
    """
    if argument is not None:
        if not 0 <= argument < config.vocab_size:
            raise ParameterError(
                f"mask_token_id must be in [0, {config.vocab_size}), got {argument}", param="mask_token_id"
            )
        return argument
    named = raw.get("mask_token_id")
    if named is not None:
        _check_mask(named, config, spec, tokenizer)
        return named
    if spec.noise == "uniform":
        return None
    if spec.mask_is_last:
        return config.vocab_size - 1
    if spec.mask_token is None and spec.mask_token_id is None:
        return _spare(config, spec, tokenizer)
    return _published(config, spec, tokenizer)


def _published(config: ModelConfig, spec: FamilySpec, tokenizer: Tokenizer | None) -> int:
    token, found = spec.mask_token or "the mask token", spec.mask_token_id
    if tokenizer is not None and spec.mask_token is not None:
        found = tokenizer.token_id(spec.mask_token)
    if found is None:
        raise TokenizerMismatch(
            f"config.json names no mask token and the tokenizer has no {token!r}; pass mask_token_id"
        )
    if found >= config.vocab_size:
        raise TokenizerMismatch(
            f"config.json names no mask token and {token!r} ({found}) is outside the {config.vocab_size} embedding "
            "rows; pass mask_token_id"
        )
    return found


def _check_mask(named: object, config: ModelConfig, spec: FamilySpec, tokenizer: Tokenizer | None) -> None:
    if not isinstance(named, int) or not 0 <= named < config.vocab_size:
        raise TokenizerMismatch(
            f"config.json: mask_token_id {named!r} is outside the {config.vocab_size} embedding rows; "
            "pass mask_token_id"
        )
    if tokenizer is None or spec.mask_token is None:
        return
    string = tokenizer.token(named)
    # a sibling of the published checkpoint may use another id (iLLaDA) and then another string
    sibling = named != spec.mask_token_id and string is not None and "mask" in string.lower()
    if string != spec.mask_token and not sibling:
        raise TokenizerMismatch(
            f"mask_token_id {named} is {string!r} in the tokenizer, expected {spec.mask_token!r}; pass mask_token_id"
        )


def _spare(config: ModelConfig, spec: FamilySpec, tokenizer: Tokenizer | None) -> int | None:
    if tokenizer is None:
        return None
    for token in spec.spare_tokens:
        found = tokenizer.token_id(token)
        if found is not None and found < config.vocab_size:
            return found
    unused = (row for row in range(len(tokenizer), config.vocab_size) if tokenizer.token(row) is None)
    return next(unused, None)


def resolve_stops(
    raw: Mapping[str, Any],
    generation: Mapping[str, Any],
    config: ModelConfig,
    spec: FamilySpec,
    tokenizer: Tokenizer | None,
) -> tuple[int, ...]:
    """Ids that end an answer: eos of config.json and generation_config.json, `spec.stop_tokens`, the tokenizer's eos.

    The end-of-text id of config.json comes first. Ids without an embedding row can never be produced and are left out.
    """
    found = [*_ids(raw.get("eos_token_id")), *_ids(generation.get("eos_token_id"))]
    if tokenizer is not None:
        names = (*spec.stop_tokens, *([tokenizer.eos] if tokenizer.eos is not None else []))
        found += [token for name in names if (token := tokenizer.token_id(name)) is not None]
    return tuple(token for token in dict.fromkeys(found) if 0 <= token < config.vocab_size)


def _ids(value: object) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [token for token in values if isinstance(token, int)]


def check_foreign(spec: FamilySpec, tokenizer: Tokenizer | None) -> None:
    """Refuse a checkpoint that carries the family's name, but whose tokenizer says that it is decoded otherwise.

    Raises:
        ModelError: it has the family's `foreign_token`.
    """
    token = spec.foreign_token
    if token is not None and tokenizer is not None and tokenizer.token_id(token) is not None:
        raise ModelError(
            f"{spec.name} ({spec.title}): the tokenizer has {token!r}, so this model changes the number of its masks "
            "as it decodes, which is not supported; load a checkpoint of the family without it"
        )


def resolve_edits(raw: Mapping[str, Any], config: ModelConfig, spec: FamilySpec) -> tuple[int, int] | None:
    """Ids of the tokens that delete and insert, where config.json names them.

    Raises:
        ModelError: only one of them, or an id without an embedding row.
    """
    found = (raw.get("delete_token_id"), raw.get("split_token_id"))
    if not spec.edits or found == (None, None):
        return None
    delete, insert = found
    if not all(isinstance(token, int) and 0 <= token < config.vocab_size for token in found):
        raise ModelError(
            f"config.json: delete_token_id {delete!r} and split_token_id {insert!r} must both be ids below "
            f"{config.vocab_size}"
        )
    return found  # type: ignore[return-value]  # both are ids


def resolve_block(argument: int | None, raw: Mapping[str, Any], spec: FamilySpec) -> int | None:
    """The block length: argument, else config.json, else the family's; None: free.

    Raises:
        ParameterError: not a positive integer.
    """
    named = next((raw[key] for key in spec.block_keys if raw.get(key) is not None), spec.block_length)
    chosen = named if argument is None else argument
    if chosen is not None and (not isinstance(chosen, int) or chosen < 1):
        raise ParameterError(f"block_length must be a positive integer, got {chosen!r}", param="block_length")
    return chosen
