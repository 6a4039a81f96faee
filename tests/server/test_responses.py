"""`/v1/responses` through the official client: whole, streamed, async, parsed, refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from openai.types.responses import Response as OpenAIResponse
from tests.cli.scripted import scripted_model
from tests.engine.talk import talking
from tests.server.live import Live, live
from tests.server.test_refusals import refused

import anyorder
from anyorder.models.loaded import LoadedModel
from anyorder.server.wire.responses import LABELS, REFUSED

PATH = "/v1/responses"


def posted(server: Live, **changes: Any) -> Any:
    body = {"model": server.model, "input": "7 8", "max_output_tokens": 6, **changes}
    with server.http() as http:
        return http.post(PATH, json={name: value for name, value in body.items() if value is not ...})


def events(text: str) -> list[dict[str, Any]]:
    """The data of all events, each under its own name."""
    found: list[dict[str, Any]] = []
    for block in text.split("\n\n"):
        if block:
            name, data = block.split("\n")
            found.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {found[-1]['type']}"
    return found


def test_an_answer_is_that_of_a_chat(numbers: Live, number_model: LoadedModel) -> None:
    asked: Any = {"temperature": 1.3, "extra_body": {"seed": 4, "top_k": 9}}
    answer = numbers.client().responses.create(
        model=numbers.model,
        input="7 8",
        instructions="9 9",
        max_output_tokens=8,
        metadata={"a": "b"},
        user="eve",
        **asked,
    )
    messages = [{"role": "system", "content": "9 9"}, {"role": "user", "content": "7 8"}]
    expected = anyorder.generate(number_model, messages, max_new_tokens=8, temperature=1.3, seed=4, top_k=9)
    assert answer.output_text == expected.text
    assert (answer.status == "incomplete") == (expected.finish_reason == "length")
    assert answer.usage is not None
    assert answer.usage.output_tokens == len(expected.ids)
    assert answer.usage.input_tokens == len(expected.prompt_ids)
    assert answer.usage.total_tokens == len(expected.ids) + len(expected.prompt_ids)
    assert (answer.metadata, answer.instructions, answer.user) == ({"a": "b"}, "9 9", "eve")
    assert (answer.temperature, answer.max_output_tokens, answer.model) == (1.3, 8, numbers.model)
    assert answer.id.startswith("resp_")
    assert answer.model_extra is not None
    assert answer.model_extra["store"] is False


@pytest.mark.parametrize("family", ["llada", "sdar", "llama"])
def test_items_are_the_messages_of_a_chat(family: str) -> None:
    model = talking(family)
    messages = [
        {"role": "system", "content": "7"},
        {"role": "user", "content": "8\n9"},
        {"role": "assistant", "content": "10"},
        {"role": "user", "content": "11"},
    ]
    items: Any = [
        {"role": "developer", "content": "7"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": t} for t in ("8", "9")]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
         "content": [{"type": "output_text", "text": "10", "annotations": [], "logprobs": []}]},
        {"role": "user", "content": "11"},
    ]  # fmt: skip
    with live(model) as server:
        answer = server.client().responses.create(model=server.model, input=items, max_output_tokens=7)
        again: Any = [*items[:-1], *[item.model_dump() for item in answer.output], items[-1]]
        assert server.client().responses.create(model=server.model, input=again, max_output_tokens=7).output
    assert answer.output_text == anyorder.generate(model, messages, max_new_tokens=7).text


ORDER = ["created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
         "output_text.done", "content_part.done", "output_item.done", "incomplete"]  # fmt: skip


def test_a_stream_tells_the_same_in_named_and_numbered_events(letters: Live) -> None:
    whole = posted(letters, input="hi", max_output_tokens=9).json()
    answer = posted(letters, input="hi", max_output_tokens=9, stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = events(answer.text)
    kinds = [event["type"].removeprefix("response.") for event in found]
    assert list(dict.fromkeys(kinds)) == ORDER
    assert all(kinds.count(kind) == 1 for kind in ORDER if kind != "output_text.delta")
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    deltas = [event["delta"] for event in found if event["type"] == "response.output_text.delta"]
    text = whole["output"][0]["content"][0]["text"]
    assert len(deltas) > 1
    assert "".join(deltas) == text == found[-4]["text"] == found[-3]["part"]["text"]
    assert found[0]["response"]["output"] == found[2]["item"]["content"] == []
    last = found[-1]["response"]
    assert last["output"] == [found[-2]["item"]]
    assert {event["item_id"] for event in found if "item_id" in event} == {last["output"][0]["id"]}
    assert {event["response"]["id"] for event in found if "response" in event} == {last["id"]}
    own = {"id", "created_at", "completed_at"}
    assert last.keys() == whole.keys()
    for name in last.keys() - own - {"output", "usage"}:
        assert last[name] == whole[name]
    assert last["usage"]["output_tokens"] == whole["usage"]["output_tokens"] == 9
    assert last["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["output"][0]["status"] == "incomplete"


def test_the_clients_stream_helper_reads_it(letters: Live, numbers: Live) -> None:
    with letters.client().responses.stream(model=letters.model, input="hi", max_output_tokens=9) as stream:
        shown = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    expected = letters.client().responses.create(model=letters.model, input="hi", max_output_tokens=9)
    assert shown == expected.output_text != ""
    completed: OpenAIResponse | None = None
    with numbers.client() as client:
        for seed in range(20):  # one of them comes upon a stop token
            pieces = client.responses.create(
                model=numbers.model, input="7 8", max_output_tokens=60, temperature=1.5, stream=True,
                extra_body={"seed": seed},
            )  # fmt: skip
            found = [piece.response for piece in pieces if piece.type == "response.completed"]
            completed = found[0] if found else completed
    assert completed is not None
    assert (completed.status, completed.incomplete_details, completed.error) == ("completed", None, None)
    assert completed.output[0].status == "completed"  # type: ignore[union-attr]


def test_the_asynchronous_client(letters: Live) -> None:
    async def both() -> tuple[str, str]:
        async with openai.AsyncOpenAI(base_url=f"{letters.url}/v1", api_key="none", max_retries=0) as client:
            asked: Any = {"model": letters.model, "input": "hi", "max_output_tokens": 9}
            whole, pieces = await asyncio.gather(
                client.responses.create(**asked), client.responses.create(**asked, stream=True)
            )
            text = "".join([piece.delta async for piece in pieces if piece.type == "response.output_text.delta"])
            return whole.output_text, text

    whole, streamed = asyncio.run(both())
    assert whole == streamed != ""


def test_parse_of_plain_text(letters: Live) -> None:
    answer = letters.client().responses.parse(model=letters.model, input="hi", max_output_tokens=9)
    assert answer.output_text == letters.client().responses.create(
        model=letters.model, input="hi", max_output_tokens=9, text={"format": {"type": "text"}}
    ).output_text  # fmt: skip
    assert answer.output_parsed is None


def test_log_probabilities_are_included_where_they_are_wanted(letters: Live) -> None:
    asked: Any = {"input": "abc", "max_output_tokens": 4, "include": ["message.output_text.logprobs"]}
    part = posted(letters, **asked, top_logprobs=1).json()["output"][0]["content"][0]
    assert "".join(entry["token"] for entry in part["logprobs"]) == part["text"]
    assert all(len(entry["top_logprobs"]) == 1 for entry in part["logprobs"])
    found = events(posted(letters, **asked, stream=True).text)
    streamed = [entry for event in found if event["type"].endswith(".delta") for entry in event["logprobs"]]
    assert [entry["token"] for entry in streamed] == [entry["token"] for entry in part["logprobs"]]
    assert posted(letters, input="abc").json()["output"][0]["content"][0]["logprobs"] == []


def test_an_answer_without_text_is_an_empty_message() -> None:
    with live(scripted_model("\0")) as server:
        body = posted(server, input="hi", stop="\0").json()
        found = events(posted(server, input="hi", stop="\0", stream=True).text)
    assert (body["status"], body["output"][0]["content"][0]["text"]) == ("completed", "")
    assert found[-1]["response"]["output"][0]["content"] == body["output"][0]["content"]


def test_what_changes_nothing_is_echoed_and_what_asks_for_nothing_accepted(numbers: Live) -> None:
    labels = dict.fromkeys(LABELS, "24h")
    body = posted(numbers, **labels, include=["reasoning.encrypted_content"], tools=[], tool_choice="auto").json()
    assert {name: body[name] for name in LABELS} == labels
    for name, rule in REFUSED.items():
        for value in (*rule.values, None):
            assert posted(numbers, **{name: value}).status_code == 200, name


def test_a_failure_in_the_middle_of_a_stream_is_its_last_event(letters: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    from anyorder.server.wire import responses_voice

    def fails(*_: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(responses_voice.ResponsesVoice, "_finished", fails)
    last = events(posted(letters, stream=True).text)[-1]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"]["code"] == "internal_error"
    assert "secret" not in json.dumps(last)


USER = {"role": "user", "content": "7"}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"model": ...}, "model"),
    ({"input": ...}, "input"),
    ({"input": ""}, "input"),
    ({"input": []}, "input"),
    ({"input": 7}, "input"),
    ({"input": [7]}, "input[0]"),
    ({"input": [USER, {"role": "wizard", "content": "7"}]}, "input[1].role"),
    ({"input": [{"role": "user"}]}, "input[0].content"),
    ({"input": [{**USER, "colour": "red"}]}, "input[0].colour"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0]"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
    ({"input": [{"type": "web_search_call"}]}, "input[0].type"),
    ({"instructions": 7}, "instructions"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"max_output_tokens": "6"}, "max_output_tokens"),
    ({"temperature": -1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": 1, "top_p": 0}, "top_p"),
    ({"stream": "yes"}, "stream"),
    ({"stream": True, "stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    ({"text": {"format": {"type": "json_object"}}}, "text.format"),
    ({"text": {"format": {"type": "json_schema", "name": "a", "schema": {}}}}, "text.format"),
    ({"text": {"verbosity": "high"}}, "text.verbosity"),
    ({"reasoning": {"effort": "wild"}}, "reasoning.effort"),
    ({"reasoning": {"summary": "detailed"}}, "reasoning.summary"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tool_choice": {"type": "mcp", "server_label": "a"}}, "tool_choice"),
    ({"include": ["file_search_call.results"]}, "include"),
    ({"top_logprobs": 1}, "top_logprobs"),
    ({"top_logprobs": 21, "include": ["message.output_text.logprobs"]}, "top_logprobs"),
    ({"metadata": {"a": 1}}, "metadata.a"),
    ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
    ({"metadata": {"a": "b" * 513}}, "metadata"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"store": True}, "store"),
    ({"background": True}, "background"),
    ({"truncation": "auto"}, "truncation"),
    ({"max_tool_calls": 3}, "max_tool_calls"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"service_tier": "flex"}, "service_tier"),
    ({"presence_penalty": 1}, "presence_penalty"),
    ({"seed": -1}, "seed"),
    ({"stop": [""]}, "stop"),
    ({"diffusion": {"threshold": 2}}, "diffusion.threshold"),
    ({"diffusing": True}, "diffusing"),
    ({"n": 2}, "n"),
    ({"messages": [USER]}, "messages"),
    ({"max_tokens": 5}, "max_tokens"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "param"), WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_parameter_is_named(numbers: Live, changes: dict[str, Any], param: str) -> None:
    error = refused(posted(numbers, **changes))
    assert error["param"] == param, error
    assert error["type"] == "invalid_request_error"
    assert "max_completion_tokens" not in error["message"]
    assert "messages[" not in error["message"]


def test_the_client_raises_what_it_would_at_openai(numbers: Live) -> None:
    client = numbers.client()
    with pytest.raises(openai.NotFoundError) as missing:
        client.responses.create(model="gpt-7", input="7")
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as long:
        client.responses.create(model=numbers.model, input="7 " * 200)
    assert (long.value.code, long.value.param) == ("context_length_exceeded", None)
    with pytest.raises(openai.BadRequestError) as stored:
        client.responses.create(model=numbers.model, input="7", previous_response_id="resp_1", stream=True)
    assert stored.value.param == "previous_response_id"
