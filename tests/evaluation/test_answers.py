"""What of a written text is graded."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gemma_talk import backend, gemma_tokenizer, talking_gemma

import anyorder
from anyorder.errors import ParameterError
from anyorder.evaluation.answers import check_think_end, graded, until
from anyorder.generation import Generation

TOKENIZER = gemma_tokenizer()
CLOSE = backend().token_to_id("<channel|>")


def written(said: str) -> Generation:
    given = dict(enumerate(backend().encode(said, add_special_tokens=False).ids))
    return anyorder.generate(talking_gemma(), "why?", mode="causal", forced=given, max_new_tokens=len(given))


@pytest.mark.parametrize("named", ["<channel|>", CLOSE])
def test_a_token_ends_the_reasoning(named: Any) -> None:
    end = check_think_end(named, TOKENIZER)
    assert end == CLOSE
    assert graded(written("a.b<channel|>c<channel|> d.e"), TOKENIZER, ["."], end) == "d"
    assert graded(written("a b.c"), TOKENIZER, ".", end) == "a b"
    assert graded(written("a<channel|>"), TOKENIZER, None, end) == ""


def test_a_text_ends_the_reasoning_behind_the_stops() -> None:
    end = check_think_end("</think>", TOKENIZER)
    assert end == "</think>"
    assert graded(written("<think>a</think>b</think>\n c.d"), TOKENIZER, ["."], end) == "c"
    assert graded(written("a.</think>b"), TOKENIZER, ["."], end) == "a"
    assert graded(written("a</think> b"), TOKENIZER, None, None) == "a</think> b"


@pytest.mark.parametrize("wrong", ["", True, -1, 10**6, 1.5])
def test_what_ends_nothing_is_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="think_end_token must be a text, or a token id below") as caught:
        check_think_end(wrong, TOKENIZER)
    assert caught.value.param == "think_end_token"


def test_the_first_stop_counts() -> None:
    assert until("a b. c", ["c", ".", ""]) == "a b"
    assert until("a b. c", None) == "a b. c"
