"""Log-probabilities on the wire: of what was generated and of what was given, equal to those of Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.server.live import Live

import anyorder
from anyorder import DecodeParams, Generation
from anyorder.models.loaded import LoadedModel

MESSAGES = [{"role": "user", "content": "7 8 9"}]
SAMPLED: dict[str, Any] = {"max_tokens": 9, "temperature": 1.0, "seed": 5, "ignore_eos": True}


def spelt(model: LoadedModel, id: int) -> str:
    assert model.tokenizer is not None
    return model.tokenizer.decode([id]) or f"<{id}>"


def generated(model: LoadedModel, prompt: Any, top: int = 3) -> Generation:
    params = DecodeParams(max_new_tokens=9, temperature=1.0, seed=5, stop_ids=(), top_logprobs=top)
    return anyorder.generate(model, prompt, params)


def logs(value: float) -> Any:
    return pytest.approx(math.log(value), abs=1e-4)


def test_the_likeliest_tokens_of_a_chat_are_those_of_python(numbers: Live, number_model: LoadedModel) -> None:
    """At a temperature, where the committed token need not be among them."""
    answer = numbers.chat(messages=MESSAGES, **SAMPLED, logprobs=True, top_logprobs=3).json()["choices"][0]
    entries = answer["logprobs"]["content"]
    expected = generated(number_model, MESSAGES)
    assert len(entries) == len(expected.trace) == 9
    for entry, slot in zip(entries, expected.trace, strict=True):
        assert (entry["token"], entry["logprob"]) == (spelt(number_model, slot.id), logs(slot.confidence))
        assert [best["token"] for best in entry["top_logprobs"]] == [
            spelt(number_model, best.id) for best in slot.alternatives
        ]
        assert [best["logprob"] for best in entry["top_logprobs"]] == [
            logs(best.probability) for best in slot.alternatives
        ]
    assert any(entry["logprob"] < entry["top_logprobs"][-1]["logprob"] for entry in entries)


def test_a_stream_says_the_same(numbers: Live) -> None:
    asked: dict[str, Any] = {"model": numbers.model, "messages": MESSAGES, "logprobs": True, "top_logprobs": 2}
    asked |= {name: SAMPLED[name] for name in ("max_tokens", "temperature", "seed")}
    client = numbers.client()
    whole = client.chat.completions.create(**asked).choices[0].logprobs
    assert whole is not None
    pieces = [chunk.choices[0].logprobs for chunk in client.chat.completions.create(**asked, stream=True)]
    streamed = [entry for piece in pieces if piece is not None for entry in piece.content or []]
    assert streamed == whole.content
    assert all(len(entry.top_logprobs) == 2 for entry in streamed)


def test_a_completion_lists_the_token_itself_besides_the_likeliest(numbers: Live, number_model: LoadedModel) -> None:
    client = numbers.client()
    answer = client.completions.create(
        model=numbers.model,
        prompt="7 8",
        max_tokens=9,
        temperature=1,
        seed=5,
        logprobs=3,
        extra_body={"ignore_eos": True},
    )
    told = answer.choices[0].logprobs
    assert told is not None
    assert told.tokens is not None
    assert told.token_logprobs is not None
    assert told.top_logprobs is not None
    expected = generated(number_model, [7, 8])
    assert told.tokens == [spelt(number_model, slot.id) for slot in expected.trace]
    for own, best, slot in zip(told.token_logprobs, told.top_logprobs, expected.trace, strict=True):
        assert own == logs(slot.confidence)
        named = {spelt(number_model, other.id): logs(other.probability) for other in slot.alternatives}
        assert best == {**named, spelt(number_model, slot.id): logs(slot.confidence)}
        assert best[spelt(number_model, slot.id)] == own, "the same number, to the last bit: clients compare them"
    assert any(len(best) == 4 for best in told.top_logprobs)


def test_no_alternatives_are_listed_where_none_are_wanted(numbers: Live) -> None:
    entries = numbers.chat(messages=MESSAGES, max_tokens=3, logprobs=True).json()["choices"][0]["logprobs"]["content"]
    assert [entry["top_logprobs"] for entry in entries] == [[]] * len(entries)
    told = numbers.client().completions.create(model=numbers.model, prompt="7", max_tokens=3, logprobs=0)
    assert told.choices[0].logprobs is not None
    assert told.choices[0].logprobs.top_logprobs is None
