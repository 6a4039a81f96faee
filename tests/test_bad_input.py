"""Bad input of the Python functions ends in one line that says what to do, before anything runs.

The fields of DecodeParams are in test_params, what a family refuses in test_request, prompts in test_prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.engine.tiny import tiny

import anyorder
from anyorder import AnyorderError, Hole
from anyorder.errors import ContextError, ParameterError

Call = Callable[..., Any]
bad = cast(Any, anyorder)  # the calls below are wrong on purpose


def text_of(call: Callable[[], Any], kind: type[AnyorderError] = ParameterError) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("function", ["stream", "generate", "infill"])
def test_an_unknown_parameter_is_answered_with_the_nearest(function: str) -> None:
    text = text_of(lambda: getattr(bad, function)(tiny("llada"), [5, Hole(1)], stpes=3))
    assert text.startswith("unknown parameter 'stpes'; did you mean 'steps'? Known: alg_temp, ")


def test_every_public_function_checks_its_prompts() -> None:
    model = tiny("llada")
    kinds = "a prompt is text, a list of token ids, a list of chat messages, or a list of text, Hole(n) and Image; got "
    assert text_of(lambda: bad.generate(model, None)) == kinds + "NoneType"
    assert text_of(lambda: bad.stream(model, 5)) == kinds + "int"
    assert text_of(lambda: bad.generate_batch(model, [5, 6])) == kinds + "int"
    assert text_of(lambda: bad.generate_batch(model, [[5], None])) == kinds + "NoneType"
    assert text_of(lambda: bad.generate(model, [])) == "the prompt is empty; give at least one token of text"


@pytest.mark.parametrize(
    ("prompts", "text"),
    [
        ("text", "`prompts` must be a list of prompts, got str; put one prompt into a list"),
        (None, "`prompts` must be a list of prompts, got NoneType; put one prompt into a list"),
        (iter([[5]]), "`prompts` must be a list of prompts, got list_iterator; put one prompt into a list"),
        ([], "no prompts given; give at least one"),
    ],
)
def test_a_batch_is_a_list_of_prompts(prompts: Any, text: str) -> None:
    assert text_of(lambda: bad.generate_batch(tiny("llada"), prompts)) == text


@pytest.mark.parametrize("prompts", [["text"], [[5, Hole(1)]], [[5.0]], [5], [None]])
def test_an_attention_mask_goes_with_rows_of_ids(prompts: Any) -> None:
    text = text_of(lambda: bad.generate_batch(tiny("llada"), prompts, attention_mask=[[1, 1]]))
    assert text == "`attention_mask` goes with rows of token ids, and a prompt is none"


@pytest.mark.parametrize("parts", [None, "text", [5, 6], [], 3])
def test_infill_needs_a_hole(parts: Any) -> None:
    assert text_of(lambda: bad.infill(tiny("llada"), parts)) == (
        "infill needs a list of text with at least one Hole(n) in it"
    )


def test_one_prompt_of_a_batch_that_is_too_long_refuses_the_batch() -> None:
    text = text_of(lambda: anyorder.generate_batch(tiny("llada"), [[5], [5] * 95], max_new_tokens=4), ContextError)
    assert text == (
        "the prompt has 95 tokens and max_new_tokens is 4, together 99; the model's context is 96: shorten them by 3"
    )


def test_parameters_come_by_name() -> None:
    assert text_of(lambda: bad.generate(tiny("llada"), [5], {"steps": 3})) == (
        "`params` must be a DecodeParams, got dict; give its fields as keyword arguments"
    )


def test_a_refusal_costs_no_pass() -> None:
    """`stream` refuses at the call, not at the first event."""
    with pytest.raises(ParameterError):
        anyorder.stream(tiny("llada"), [5], steps=0)


def test_refusals_are_value_errors_and_name_the_parameter() -> None:
    with pytest.raises(ValueError, match="threshold") as caught:
        anyorder.generate(tiny("llada"), [5], threshold=2.0)
    assert isinstance(caught.value, ParameterError)
    assert caught.value.param == "threshold"
