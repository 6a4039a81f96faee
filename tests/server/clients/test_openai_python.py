"""OpenAI's Python client, synchronous and asynchronous, in every way in which it calls what the server has."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import openai
import pytest
from pydantic import BaseModel
from tests.cli.scripted import scripted_model
from tests.server.channels.test_chat_channels import CALLS, MESSAGES, ROOM, WEATHER, read, rendered
from tests.server.live import Live, live

from anyorder.server.keys import ApiKey
from anyorder.server.settings import ServerSettings

HI: Any = [{"role": "user", "content": "hi"}]
SHORT: Any = {"max_tokens": 40, "stop": ["!"]}  # helpers that parse raise an error where an answer was cut off


class City(BaseModel):
    """What a client may want to have filled in."""

    name: str


def test_the_models_are_listed_and_retrieved(letters: Live) -> None:
    with letters.client() as client:
        (listed,) = client.models.list()
        assert listed == client.models.retrieve(letters.model)
        assert (listed.id, listed.object) == (letters.model, "model")
        with pytest.raises(openai.NotFoundError) as missing:
            client.models.retrieve("gpt-7")
    assert missing.value.code == "model_not_found"


def test_the_stream_helper_adds_up_to_the_whole_answer(letters: Live) -> None:
    asked: Any = {"model": letters.model, "messages": HI, **SHORT}
    with letters.client() as client:
        whole = client.chat.completions.create(**asked)
        with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
            events = list(stream)
            final = stream.get_final_completion()
    deltas = [event.delta for event in events if event.type == "content.delta"]
    assert "".join(deltas) == final.choices[0].message.content == whole.choices[0].message.content
    assert len(deltas) > 1
    assert final.choices[0].finish_reason == whole.choices[0].finish_reason == "stop"
    assert final.usage is not None
    assert whole.usage is not None
    assert final.usage.completion_tokens == whole.usage.completion_tokens > 0


def test_the_stream_helper_collects_calls(caller: Live) -> None:
    asked: Any = {"model": caller.model, "messages": MESSAGES, "max_tokens": 400, "tools": [WEATHER]}
    with caller.client() as client, client.chat.completions.stream(**asked) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        final = stream.get_final_completion()
    assert [(event.name, json.loads(event.arguments)) for event in done] == CALLS
    assert read(final.choices[0].message.tool_calls) == CALLS
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.choices[0].message.content == "Let me look."


def test_parse_of_plain_text(letters: Live) -> None:
    with letters.client() as client:
        answer = client.chat.completions.parse(model=letters.model, messages=HI, **SHORT)
        message = answer.choices[0].message
        assert message.parsed is None
        assert message.content == letters.chat(messages=HI, **SHORT).json()["choices"][0]["message"]["content"]
        with pytest.raises(openai.LengthFinishReasonError):
            client.chat.completions.parse(model=letters.model, messages=HI, max_tokens=3)


def test_parse_with_a_schema_is_refused_and_not_pretended(letters: Live, caller: Live) -> None:
    with letters.client() as client:
        with pytest.raises(openai.BadRequestError) as chat:
            client.chat.completions.parse(model=letters.model, messages=HI, response_format=City)
        with (
            pytest.raises(openai.BadRequestError) as streamed,
            client.chat.completions.stream(model=letters.model, messages=HI, response_format=City),
        ):
            pass
        with pytest.raises(openai.BadRequestError) as response:
            client.responses.parse(model=letters.model, input="hi", text_format=City)
    assert (chat.value.param, chat.value.code) == ("response_format", "unsupported_parameter")
    assert streamed.value.param == "response_format"
    assert response.value.param == "text.format"
    strict = openai.pydantic_function_tool(City)
    with caller.client() as client, pytest.raises(openai.BadRequestError) as tool:
        client.chat.completions.parse(model=caller.model, messages=HI, tools=[strict])
    assert tool.value.param == "tools[0].function.strict"


def test_a_round_of_tools(caller: Live) -> None:
    """The client's own objects go back as they came, and the model sees the calls and their results."""
    with caller.client() as client:
        asked: Any = {"model": caller.model, "max_tokens": 400, "tools": [WEATHER]}
        message = client.chat.completions.create(**asked, messages=MESSAGES).choices[0].message
        results: list[Any] = [
            {"role": "tool", "tool_call_id": call.id, "content": f"{12 + number} degrees"}
            for number, call in enumerate(message.tool_calls or [])
        ]
        client.chat.completions.create(**asked, messages=[*MESSAGES, message, *results])
    seen = rendered(caller)
    assert "Let me look." in seen
    assert seen.index("Bern") < seen.index("12 degrees") < seen.index("13 degrees")


def test_raw_and_streamed_responses_show_headers(letters: Live) -> None:
    asked: Any = {"model": letters.model, "messages": HI, "max_tokens": 6}
    with letters.client() as client:
        raw = client.chat.completions.with_raw_response.create(**asked, extra_headers={"x-request-id": "mine"})
        assert raw.status_code == 200
        assert (raw.headers["x-request-id"], raw.request_id) == ("mine", "mine")
        parsed = raw.parse()
        body = json.loads(raw.text)
        assert parsed.choices[0].message.content == body["choices"][0]["message"]["content"]
        assert body["choices"][0]["message"].keys() == {"role", "content", "refusal", "annotations"}
        assert "system_fingerprint" not in body  # a text or not there, by OpenAI's schema
        with client.chat.completions.with_streaming_response.create(**asked, stream=True) as streamed:
            assert streamed.headers["content-type"].startswith("text/event-stream")
            assert list(streamed.iter_lines())[-2] == "data: [DONE]"


def test_the_asynchronous_client(letters: Live) -> None:
    asked: Any = {"model": letters.model, "messages": HI, **SHORT}

    async def seen() -> tuple[Any, ...]:
        async with openai.AsyncOpenAI(base_url=f"{letters.url}/v1", api_key="none", max_retries=0) as client:
            whole = await client.chat.completions.create(**asked)
            async with client.chat.completions.stream(**asked) as stream:
                text = "".join([event.delta async for event in stream if event.type == "content.delta"])
            completion = await client.completions.create(model=letters.model, prompt="hi", max_tokens=5)
            names = [model.id async for model in client.models.list()]
            with pytest.raises(openai.BadRequestError) as refused:
                await client.chat.completions.parse(**asked, response_format=City)
            return whole.choices[0].message.content, text, completion.choices[0].text, names, refused.value.param

    whole, text, completion, names, param = asyncio.run(seen())
    assert whole == text != ""
    assert completion
    assert names == [letters.model]
    assert param == "response_format"


def test_errors_have_the_clients_classes() -> None:
    settings = ServerSettings(keys=(ApiKey(key="good"), ApiKey(key="few", tokens_per_minute=20)))
    with live(scripted_model(), settings) as server, server.client("good") as client:
        with server.client("bad") as stranger, pytest.raises(openai.AuthenticationError) as unknown:
            stranger.models.list()
        assert unknown.value.status_code == 401
        with pytest.raises(openai.NotFoundError) as missing:
            client.chat.completions.create(model="gpt-7", messages=HI)
        assert (missing.value.param, missing.value.code) == ("model", "model_not_found")
        with pytest.raises(openai.NotFoundError):
            client.embeddings.create(model=server.model, input="hi")
        with pytest.raises(openai.BadRequestError) as wrong:
            client.chat.completions.create(model=server.model, messages=HI, temperature=-1)
        assert (wrong.value.param, bool(wrong.value.request_id)) == ("temperature", True)


def test_what_can_never_be_answered_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        live(scripted_model(), ServerSettings(tokens_per_minute=20)) as server,
        server.client().with_options(max_retries=5) as patient,
    ):
        slept = naps(monkeypatch)
        with pytest.raises(openai.RateLimitError) as never:
            patient.chat.completions.create(model=server.model, messages=HI, max_tokens=40)
    assert never.value.code == "rate_limit_exceeded"
    assert slept == []


def test_the_client_waits_as_long_as_it_is_told_and_gets_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Any = {"messages": HI, "max_tokens": 1}
    with (
        live(scripted_model(), ServerSettings(requests_per_minute=2)) as server,
        server.client() as hasty,
        hasty.with_options(max_retries=1) as patient,
    ):
        for _ in range(2):
            hasty.chat.completions.create(model=server.model, **asked)
        with pytest.raises(openai.RateLimitError) as told:
            hasty.chat.completions.create(model=server.model, **asked)
        slept = naps(monkeypatch)
        with pytest.raises(openai.RateLimitError):  # nobody really slept, so the second try comes too early as well
            patient.chat.completions.create(model=server.model, **asked)
    wanted = float(told.value.response.headers["retry-after-ms"]) / 1000
    assert len(slept) == 1
    assert wanted - 5 < slept[0] <= wanted


def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client sleeps between tries, from now on; it does not really, and the server is not touched."""
    slept: list[float] = []
    monkeypatch.setattr("openai._base_client.time", SimpleNamespace(**{**vars(time), "sleep": slept.append}))
    return slept


def test_the_client_tries_again_by_itself() -> None:
    """A real wait, of a second at most."""
    asked: Any = {"messages": HI, "max_tokens": 1}
    settings = ServerSettings(requests_per_minute=60)
    with live(scripted_model(), settings) as server, server.client() as client, server.http() as http:
        taken = (http.post("/v1/chat/completions", json={}).status_code for _ in range(90))
        assert 429 in taken  # what is refused counts as well
        raw = client.with_options(max_retries=3).chat.completions.with_raw_response.create(model=server.model, **asked)
    assert raw.retries_taken >= 1
    assert raw.parse().choices


def test_a_timeout_of_the_client_ends_the_request() -> None:
    model = scripted_model()
    slow = replace(model, config=replace(model.config, max_context=1 << 16))
    with live(slow, engine=ROOM) as server, server.client() as client:
        impatient = client.with_options(timeout=0.05)
        with pytest.raises(openai.APITimeoutError):
            impatient.chat.completions.create(model=server.model, messages=HI, max_tokens=20_000)
        assert client.chat.completions.create(model=server.model, messages=HI, max_tokens=2).choices
    # `live` checks that nothing runs any more


def test_refusals_of_one_request_leave_the_connection_usable(letters: Live) -> None:
    with letters.client() as client:
        for _ in range(3):
            with pytest.raises(openai.BadRequestError):
                client.chat.completions.create(model=letters.model, messages=cast(Any, []))
            assert client.chat.completions.create(model=letters.model, messages=HI, max_tokens=2).choices
