"""Prompts of every kind, and what is no prompt."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from tests.engine.talk import talking
from tests.engine.tiny import MASK, tiny

from anyorder import Hole
from anyorder.errors import ModelError, ParameterError
from anyorder.prompt import encode_prompt, strip_padding

KINDS = "a prompt is text, a list of token ids, a list of chat messages, or a list of text, Hole(n) and Image; got "


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("8 9", [8, 9]),
        ([8, 9], [8, 9]),
        ((8, MASK), [8, MASK]),
        (range(8, 11), [8, 9, 10]),
        (["8 9", Hole(2), 10, "11"], [8, 9, Hole(2), 10, 11]),
        ([Hole(3)], [Hole(3)]),
        ([{"role": "user", "content": "8"}], [5, 8, 2, 6]),
    ],
)
def test_every_kind_of_prompt_becomes_ids_and_holes(prompt: Any, ids: list[int | Hole]) -> None:
    assert encode_prompt(talking("llada"), prompt) == ids


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        (None, "NoneType"),
        (5, "int"),
        (b"\x08\x09", "bytes"),
        ({"role": "user", "content": "8"}, "dict"),
        (torch.tensor([8, 9]), "Tensor"),
        (torch.tensor([]), "Tensor"),
        (iter([8, 9]), "list_iterator"),
        ({8, 9}, "set"),
        ([8.0], "float"),
        ([True], "bool"),
        ([None], "NoneType"),
        ([[8, 9]], "list"),
        ([{"role": "user", "content": "8"}, "9"], "dict"),
    ],
)
def test_other_kinds_are_refused_by_name(prompt: Any, kind: str) -> None:
    """Guards against a generator that loses its first token and bytes that pass for ids."""
    with pytest.raises(ParameterError) as caught:
        encode_prompt(talking("llada"), prompt)
    assert str(caught.value) == KINDS + kind
    assert caught.value.param == "prompt"


@pytest.mark.parametrize("prompt", ["", [], (), [""]])
def test_an_empty_prompt_is_refused(prompt: Any) -> None:
    with pytest.raises(ParameterError, match=r"^the prompt is empty; give at least one token of text$"):
        encode_prompt(talking("llada"), prompt)


@pytest.mark.parametrize("token", [-1, 24, 2**70])
def test_an_id_outside_of_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(ParameterError, match=f"^token id {token} is outside the vocabulary; ids go from 0 to 23$"):
        encode_prompt(tiny("llada"), [5, token])


@pytest.mark.parametrize("prompt", ["8", ["8", Hole(1)], [{"role": "user", "content": "8"}]])
def test_text_needs_a_tokenizer(prompt: Any) -> None:
    with pytest.raises(ModelError, match=r"^tiny llada has no tokenizer; pass token ids instead of text$"):
        encode_prompt(tiny("llada"), prompt)


def test_padding_is_taken_off_on_the_left() -> None:
    rows, mask = [[0, 0, 7], [8, 9, 10]], [[0, 0, 1], [1, 1, 1]]
    assert strip_padding(rows, mask) == [[7], [8, 9, 10]]


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        ([[1, 1, 0]], "row 0 of `attention_mask` is not zeros followed by ones; pad on the left or not at all"),
        ([[0, 1, 2]], "row 0 of `attention_mask` is not zeros followed by ones; pad on the left or not at all"),
        ([[1, 1]], "`attention_mask` must have the shape of the token ids"),
        ([[1, 1, 1], [1, 1, 1]], "`attention_mask` must have the shape of the token ids"),
        ([1, 1, 1], "`attention_mask` must have the shape of the token ids"),
        ([["0", "1", "1"]], "row 0 of `attention_mask` is not zeros followed by ones; pad on the left or not at all"),
    ],
)
def test_a_mask_that_is_no_left_padding_is_refused(mask: Any, text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        strip_padding([[7, 8, 9]], mask)
    assert str(caught.value) == text


def test_plain_text_begins_with_what_the_tokenizer_puts_there() -> None:
    """A base model that was trained with a BOS token must get it, and only at the very beginning."""

    class WithBos:
        def encode_text(self, text: str, *, bos: bool = False) -> list[int]:
            return [1] * bos + [9] * len(text)

    model = dataclasses.replace(tiny("llama"), tokenizer=WithBos())  # pyright: ignore[reportArgumentType]
    assert encode_prompt(model, "ab") == [1, 9, 9]
    assert encode_prompt(model, ["a", Hole(2), "b"]) == [1, 9, Hole(2), 9]
    assert encode_prompt(model, [Hole(2), "b"]) == [Hole(2), 9]
    with pytest.raises(ParameterError, match="the prompt is empty"):
        encode_prompt(model, "")
