"""Calls and reasoning in `/v1/responses`: items of their own, whole, streamed and sent back."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.cli.scripted import ByteTokenizer, scripted_model
from tests.server.live import Live, live
from tests.server.test_refusals import refused
from tests.server.test_responses import ORDER, events, posted

from anyorder.models.loaded import LoadedModel
from anyorder.server.settings import ServerSettings
from anyorder.server.wire.responses_input import conversation

CONTEXT = 2048
PARSERS = ServerSettings(tool_parser="hermes", reasoning_parser="think")
TOOL: dict[str, Any] = {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": None}
CALL = '{"name": "add", "arguments": {"a": 7}}'
ASKED: dict[str, Any] = {"input": "7 and 8?", "tools": [TOOL], "max_output_tokens": 400}
SAID = f"<think>seven</think>Let me see.<tool_call>[{CALL}, {CALL}]</tool_call>"


class Tokenizer(ByteTokenizer):
    """Its template opens no channel for an answer."""

    def answer_opening(self, inputs: object = None) -> str:
        return ""


def long(script: str) -> LoadedModel:
    model = scripted_model(script)
    config = replace(model.config, max_context=CONTEXT)
    return replace(model, config=config, tokenizer=cast(Any, Tokenizer()))


def prompt_length(**asked: Any) -> int:
    with live(long("a"), PARSERS) as server:
        return posted(server, **{**asked, "max_output_tokens": 1}).json()["usage"]["input_tokens"]


@pytest.fixture(scope="module")
def caller() -> Generator[Live]:
    """A server of a model that thinks, says something and calls a tool twice."""
    length = prompt_length(**ASKED)
    script = SAID.ljust(CONTEXT)
    with live(long(script[-length:] + script[:-length]), PARSERS) as server:
        yield server


def test_channels_are_items(caller: Live) -> None:
    body = posted(caller, **ASKED).json()
    thought, said, first, second = body["output"]
    assert (thought["type"], thought["content"]) == ("reasoning", [{"type": "reasoning_text", "text": "seven"}])
    assert (said["type"], said["content"][0]["text"]) == ("message", "Let me see.")
    for call in (first, second):
        assert (call["type"], call["name"], call["arguments"]) == ("function_call", "add", '{"a": 7}')
    assert len({item["id"] for item in body["output"]} | {first["call_id"], second["call_id"]}) == 6
    assert body["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    assert body["tools"] == [TOOL]


def test_a_stream_tells_of_one_item_after_the_other(caller: Live) -> None:
    whole = posted(caller, **ASKED).json()
    found = events(posted(caller, **ASKED, stream=True).text)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    added = [event for event in found if event["type"] == "response.output_item.added"]
    done = [event for event in found if event["type"] == "response.output_item.done"]
    assert [event["output_index"] for event in added] == [event["output_index"] for event in done] == [0, 1, 2, 3]
    assert [event["item"] for event in done] == found[-1]["response"]["output"]
    for index, item in enumerate(found[-1]["response"]["output"]):
        theirs = whole["output"][index]
        assert {**item, "id": "", "call_id": ""} == {**theirs, "id": "", "call_id": ""}
        own = [event for event in found if event.get("output_index") == index]
        assert own[0]["type"].endswith("item.added")
        assert own[-1]["type"].endswith("item.done")
        assert {event["item_id"] for event in own if "item_id" in event} == {item["id"]}
        text = "".join(event["delta"] for event in own if event["type"].endswith(".delta"))
        assert text == (item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"])
    kinds = [event["type"].removeprefix("response.") for event in found]
    assert set(ORDER[:3]) < set(kinds)
    for kind in ("reasoning_text.done", "function_call_arguments.delta", "function_call_arguments.done"):
        assert kind in kinds


def test_the_client_reads_calls(caller: Live) -> None:
    client = caller.client()
    asked: Any = {**ASKED, "model": caller.model}
    with client.responses.stream(**asked) as stream:
        kinds = {event.type for event in stream}
    assert "response.function_call_arguments.done" in kinds
    parsed = client.responses.parse(**asked)
    assert [item.type for item in parsed.output] == ["reasoning", "message", "function_call", "function_call"]


def test_only_one_call_where_only_one_is_wanted(caller: Live) -> None:
    body = posted(caller, **ASKED, parallel_tool_calls=False).json()
    assert [item["type"] for item in body["output"]] == ["reasoning", "message", "function_call"]
    assert (body["parallel_tool_calls"], body["status"]) == (False, "completed")


def test_what_came_back_can_be_sent_again(caller: Live) -> None:
    """Calls go with the message before them, results to their calls."""
    output = posted(caller, **ASKED).json()["output"]
    results = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "15"}
        for item in output
        if item["type"] == "function_call"
    ]
    items = [{"role": "user", "content": "7 and 8?"}, *output, *results]
    assert posted(caller, **{**ASKED, "input": items}).status_code == 200
    talk = conversation(items, "Be brief.")
    assert [message["role"] for message in talk.messages] == ["system", "user", "assistant", "tool", "tool"]
    said = talk.messages[2]
    assert (said["content"], said["reasoning_content"], len(said["tool_calls"])) == ("Let me see.", "seven", 2)
    orphan = refused(posted(caller, **{**ASKED, "input": [items[0], results[0]]}))
    assert orphan["param"] == "input[1].tool_call_id"


def test_what_cannot_be_promised_of_calls_is_refused(caller: Live, numbers: Live) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "add"}}, "tool_choice"),
        ({"tools": [{**TOOL, "strict": True}]}, "tools[0].strict"),
        ({"tools": [{**TOOL, "name": "a b"}]}, "tools[0].name"),
        ({"tools": [TOOL, TOOL]}, "tools[1].name"),
    ]
    for changes, param in wrong:
        error = refused(posted(caller, **{**ASKED, **changes}))
        assert (error["param"], ".function" in error["message"]) == (param, False)
    assert refused(posted(numbers, tools=[TOOL]))["param"] == "tools"
    none = posted(caller, **ASKED, tool_choice="none").json()
    assert "function_call" not in [item["type"] for item in none["output"]]
