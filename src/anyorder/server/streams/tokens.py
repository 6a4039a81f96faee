"""Tokens with their log-probabilities, as text: what is delivered of an answer, and what was scored of a prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from anyorder.scoring import Scores
from anyorder.server.streams.text import UNDECODED, Decode, Detokenizer

Spell = Callable[[int], str]
"""A token by itself: its text, or what the vocabulary calls it where it has none."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the likeliest tokens of a place."""

    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text."""

    id: int
    text: str
    logprob: float | None
    """Natural logarithm, -inf where the token is impossible; None where nothing is known."""
    offset: int
    """Characters of the text in front of it."""
    alternatives: tuple[Alternative, ...] = ()
    """The likeliest tokens in its place, best first, as many as were asked for."""


def logarithm(probability: float) -> float:
    """Natural logarithm, -inf of 0."""
    return math.log(probability) if probability > 0 else -math.inf


def offset_in(decode: Decode, before: Sequence[int], size: int) -> int:
    """Characters in front of a token, of a group of tokens that only together make `size` whole characters.

    Args:
        before: the ids in front of it in the group.
    """
    return min(len(decode(before).rstrip(UNDECODED)), size)  # what begins a character is not in front of its rest


def offsets(decode: Decode, ids: Sequence[int], byte_ids: Collection[int] = ()) -> list[int]:
    """Characters in front of each token of a text."""
    detokenizer = Detokenizer(decode, byte_ids)
    found: list[int] = []
    characters = 0
    for index in range(len(ids)):
        last = index + 1 == len(ids)
        text = detokenizer.push(ids[index : index + 1]) + (detokenizer.flush() if last else "")
        group = ids[len(found) : detokenizer.read]
        found += [characters + offset_in(decode, group[:n], len(text)) for n in range(len(group))]
        characters += len(text)
    return found


def scored_tokens(scores: Scores, decode: Decode, spell: Spell, byte_ids: Collection[int] = ()) -> list[Token]:
    """The tokens of a scored text."""
    places = offsets(decode, [token.id for token in scores.tokens], byte_ids)
    return [
        Token(
            token.id,
            spell(token.id),
            token.logprob,
            offset,
            tuple(Alternative(spell(best.id), best.logprob) for best in token.alternatives),
        )
        for token, offset in zip(scores.tokens, places, strict=True)
    ]
