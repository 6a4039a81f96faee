"""`/v1/chat/completions` through the official client: answers, streams, usage."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from tests.engine.talk import talking
from tests.engine.tiny import ANY_ORDER
from tests.server.live import Live, live

import anyorder
from anyorder.generation import Generation
from anyorder.models.loaded import LoadedModel

MESSAGES: Any = [{"role": "user", "content": "7 8 9"}]


def generated(model: LoadedModel, **changes: Any) -> Generation:
    """What the engine says without a server."""
    return anyorder.generate(model, MESSAGES, max_new_tokens=9, **changes)


@pytest.mark.parametrize("family", ANY_ORDER)
def test_an_answer_is_that_of_generate_plain_and_streamed(family: str) -> None:
    model = talking(family)
    expected = generated(model)
    with live(model) as server:
        client = server.client()
        whole = client.chat.completions.create(model=server.model, messages=MESSAGES, max_tokens=9)
        pieces = list(
            client.chat.completions.create(
                model=server.model, messages=MESSAGES, max_tokens=9, stream=True, stream_options={"include_usage": True}
            )
        )
    choice = whole.choices[0]
    assert (choice.message.content, choice.finish_reason) == (expected.text, expected.finish_reason)
    assert whole.usage is not None
    assert whole.usage.completion_tokens == len(expected.ids)
    assert whole.usage.prompt_tokens == len(expected.prompt_ids)
    figures = (whole.usage.model_extra or {})["diffusion"]
    assert (figures["wasted"], figures["blocks"]) == (expected.stats.wasted, expected.stats.blocks)
    if not whole.usage.model_extra["cached_input_tokens"]:  # type: ignore[index]
        assert (figures["passes"], figures["positions"]) == (expected.stats.passes, expected.stats.positions)
        assert figures["tokens_per_forward"] == pytest.approx(expected.stats.tokens_per_forward)
    *chunks, last = pieces
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == expected.text
    assert [chunk.choices[0].delta.role for chunk in chunks] == ["assistant"] + [None] * (len(chunks) - 1)
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == [
        expected.finish_reason
    ]
    assert all(chunk.usage is None and chunk.id == last.id and chunk.created == last.created for chunk in chunks)
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == len(expected.ids)


def test_sampling_parameters_reach_the_engine(numbers: Live, number_model: LoadedModel) -> None:
    expected = generated(number_model, temperature=0.8, top_p=0.9, top_k=5, seed=11, logit_bias={8: 5.0}, threshold=0.5)
    answer = numbers.client().chat.completions.create(
        model=numbers.model, messages=MESSAGES, max_completion_tokens=9, temperature=0.8, top_p=0.9, seed=11,
        logit_bias={"8": 5}, extra_body={"top_k": 5, "diffusion": {"threshold": 0.5}},
    )  # fmt: skip
    assert answer.choices[0].message.content == expected.text


def test_n_answers_are_the_samples_of_generate_batch(numbers: Live, number_model: LoadedModel) -> None:
    sampled = anyorder.generate_batch(
        number_model, [MESSAGES] * 3, samples=range(3), temperature=1.5, seed=3, max_new_tokens=9
    )
    client = numbers.client()
    asked: Any = {"model": numbers.model, "messages": MESSAGES, "max_tokens": 9, "temperature": 1.5, "seed": 3, "n": 3}
    answer = client.chat.completions.create(**asked)
    assert [choice.message.content for choice in answer.choices] == [sample.text for sample in sampled]
    streamed = ["", "", ""]
    for chunk in client.chat.completions.create(**asked, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert streamed == [sample.text for sample in sampled]
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(sampled[0].prompt_ids)


def test_unseeded_samples_differ(letters: Live) -> None:
    """A fixed default seed would give every client the same answer for ever."""
    from anyorder.server.wire.chat import ChatRequest
    from anyorder.server.wire.common import decode_params

    request = ChatRequest.model_validate(
        {"model": "m", "messages": [{"role": "user", "content": "a"}], "temperature": 1.0}
    )
    seeds = {
        decode_params(request, anyorder.DecodeParams(), max_new_tokens=1, param="max_tokens").seed for _ in range(4)
    }
    assert len(seeds) == 4


def test_stop_strings_are_not_part_of_the_answer(letters: Live) -> None:
    streamed = letters.client().chat.completions.create(
        model=letters.model, messages=[{"role": "user", "content": "hi"}], max_tokens=40, stop=["ld", "x"], stream=True
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == "ör"
    whole = letters.chat(messages=[{"role": "user", "content": "hi"}], max_tokens=40, stop="ld").json()
    assert (whole["choices"][0]["message"]["content"], whole["choices"][0]["finish_reason"]) == ("ör", "stop")
    assert whole["usage"]["completion_tokens"] == 3  # two bytes of ö, and r


def test_log_probabilities_are_those_of_the_commits(numbers: Live, number_model: LoadedModel) -> None:
    expected = generated(number_model)
    commits = {slot.slot: slot for slot in expected.trace}
    start = len(expected.prompt_ids)
    answer = numbers.chat(messages=MESSAGES, max_tokens=9, logprobs=True, top_logprobs=1).json()["choices"][0]
    assert answer["logprobs"]["logprobs_mode"] == "commit_pass"
    entries = answer["logprobs"]["content"]
    assert [entry["token"] for entry in entries] == [
        commits[start + n].text or f"<{expected.ids[n]}>" for n in range(len(expected.ids))
    ]
    for n, entry in enumerate(entries):
        assert 2.718281828 ** entry["logprob"] == pytest.approx(commits[start + n].confidence, rel=1e-4)
        assert entry["top_logprobs"][0]["logprob"] == entry["logprob"]


def test_the_async_client_streams_many_answers_at_once(letters: Live) -> None:
    async def ask(client: openai.AsyncOpenAI, content: str) -> str:
        stream = await client.chat.completions.create(
            model=letters.model, messages=[{"role": "user", "content": content}], max_tokens=20, stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def all_of_them() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{letters.url}/v1", api_key="none") as client:
            return await asyncio.gather(*(ask(client, "a" * n) for n in range(1, 9)))

    single = [
        letters.chat(messages=[{"role": "user", "content": "a" * n}], max_tokens=20).json()["choices"][0]["message"]
        for n in range(1, 9)
    ]
    assert asyncio.run(all_of_them()) == [message["content"] for message in single]
