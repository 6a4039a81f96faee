"""`/v1/completions` and the lists of models through the official client."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.talk import talking
from tests.server.live import Live, live

import anyorder
from anyorder import Hole
from anyorder.models.loaded import LoadedModel


def test_texts_and_token_ids_batches_and_samples(numbers: Live, number_model: LoadedModel) -> None:
    client = numbers.client()
    asked: Any = {"model": numbers.model, "max_tokens": 7, "temperature": 1.5, "seed": 5}
    expected = anyorder.generate_batch(
        number_model, ["7 8"] * 2 + ["9"] * 2, samples=[0, 1, 0, 1], temperature=1.5, seed=5, max_new_tokens=7
    )
    prompts: list[Any] = [["7 8", "9"], [[7, 8], [9]], "9", [9]]
    for prompt in prompts[:2]:
        answer = client.completions.create(prompt=prompt, n=2, **asked)
        assert [(choice.index, choice.text) for choice in answer.choices] == [
            (index, single.text) for index, single in enumerate(expected)
        ]
        assert [choice.finish_reason for choice in answer.choices] == [single.finish_reason for single in expected]
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == 3
        assert answer.usage.completion_tokens == sum(len(single.ids) for single in expected)
    for prompt in prompts[2:]:
        assert client.completions.create(prompt=prompt, **asked).choices[0].text == expected[2].text


def test_the_default_length_is_that_of_openai(letters: Live) -> None:
    answer = letters.client().completions.create(model=letters.model, prompt="a")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16


def test_a_stream_with_echo_is_the_prompt_and_the_answer(letters: Live) -> None:
    client = letters.client()
    asked: Any = {"model": letters.model, "prompt": "ab", "max_tokens": 9, "echo": True}
    whole = client.completions.create(**asked).choices[0].text
    pieces = [chunk.choices[0] for chunk in client.completions.create(**asked, stream=True)]
    assert whole.startswith("ab")
    assert len(whole) > 2
    assert "".join(piece.text for piece in pieces) == whole
    assert [piece.finish_reason for piece in pieces if piece.finish_reason] == ["length"]
    asked["prompt"] = [97, 98]
    of_ids = client.completions.create(**asked).choices[0].text
    assert of_ids == whole


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_a_suffix_is_written_towards(family: str) -> None:
    model = talking(family)
    expected = anyorder.infill(model, ["7 8 ", Hole(4), " 9 10"])
    with live(model) as server:
        client = server.client()
        asked: Any = {"model": server.model, "prompt": "7 8 ", "suffix": " 9 10", "max_tokens": 4}
        answer = client.completions.create(**asked)
        streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**asked, stream=True))
    assert answer.choices[0].text == streamed == expected.holes[0]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (4, 4)


def test_log_probabilities_in_parallel_lists(letters: Live) -> None:
    answer = letters.client().completions.create(model=letters.model, prompt="abc", max_tokens=8, logprobs=1)
    logs = answer.choices[0].logprobs
    assert logs is not None
    assert logs.model_extra == {"logprobs_mode": "commit_pass"}
    assert answer.choices[0].text == "llo wör"
    tokens = ["l", "l", "o", " ", "w", "\ufffd", "\ufffd", "r"]
    assert logs.tokens == tokens
    assert logs.text_offset == [0, 1, 2, 3, 4, 5, 5, 6]
    assert logs.token_logprobs is not None
    assert logs.token_logprobs == pytest.approx([0.0] * 8, abs=1e-5)
    assert logs.top_logprobs == [{token: value} for token, value in zip(tokens, logs.token_logprobs, strict=True)]


def test_models_are_listed_per_surface(numbers: Live) -> None:
    client = numbers.client()
    (model,) = client.models.list().data
    assert client.models.retrieve(numbers.model) == model
    assert (model.id, model.object, model.owned_by) == (numbers.model, "model", "anyorder")
    assert model.model_extra is not None
    assert model.model_extra["context_length"] == 96
    surfaces = ("chat/completions", "completions", "fim/completions", "edit/completions")
    with numbers.http() as http:
        ids = {
            surface: [entry["id"] for entry in http.get(f"/v1/{surface}/models").json()["data"]] for surface in surfaces
        }
        assert http.get("/v1/models/other").json()["error"]["code"] == "model_not_found"
    assert all(listed == [numbers.model] for listed in ids.values())
