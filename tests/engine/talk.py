"""A chat template and a tokenizer for the tiny models: numbers are text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from tests.engine.tiny import STOPS, tiny

from anyorder.models.loaded import LoadedModel

ROLES = {"system": 4, "user": 5, "assistant": 6}
FIRST_WORD = 7


class NumberTokenizer:
    """Token 7 is "7"; a message is its role's token, its words, and the stop token."""

    has_chat_template = True
    chat_template: str | None = None

    def encode_text(self, text: str, *, bos: bool = False) -> list[int]:
        return [int(word) for word in text.split()]

    def encode_chat(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> list[int]:
        ids: list[int] = []
        for message in messages:
            ids += [ROLES[message["role"]], *self.encode_text(message["content"]), STOPS[0]]
        return [*ids, ROLES["assistant"]] if add_generation_prompt else ids

    def answer_opening(self, inputs: Any = None) -> str:
        return ""

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        return " ".join(str(token) for token in ids if token >= FIRST_WORD)

    def token(self, token_id: int) -> str | None:
        return f"<{token_id}>"

    def token_id(self, token: str) -> int | None:
        return None


def talking(family: str) -> LoadedModel:
    return replace(tiny(family), tokenizer=cast(Any, NumberTokenizer()))
