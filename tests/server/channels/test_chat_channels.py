"""Reasoning and tool calls over HTTP, through the official client: whole, streamed, shown as they form, sent back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import openai
import pytest
from tests.server.channels.speaking import PLAIN, TEMPLATE, TemplateTokenizer, speaking
from tests.server.live import Live, live
from tests.server.test_refusals import refused
from tests.server.test_streams import frames

from anyorder import DecodeParams
from anyorder.models.loaded import LoadedModel
from anyorder.server.backend import Backend
from anyorder.server.settings import ServerSettings
from anyorder.server.surfaces.prepare import prepare
from anyorder.server.wire.chat import ChatRequest
from anyorder.serving import ServiceSettings

ROOM = ServiceSettings(kv_bytes=1 << 24)
WEATHER: Any = {
    "type": "function",
    "function": {"name": "weather", "description": "Now", "parameters": {"type": "object", "properties": {}}},
}
CALLS = [("weather", {"city": "Zürich"}), ("weather", {"city": "Bern", "days": [1, 2]})]
WRITTEN = "".join(
    f"<tool_call>\n{json.dumps({'name': name, 'arguments': given}, ensure_ascii=False)}\n</tool_call>\n"
    for name, given in CALLS
)
SAID = f"<think>\nTwo cities.\n</think>\n\nLet me look.\n{WRITTEN}"
MESSAGES: Any = [{"role": "user", "content": "Weather?"}]
ASKED: Any = {"messages": MESSAGES, "max_tokens": 400, "tools": [WEATHER]}


@pytest.fixture(scope="module")
def caller() -> Iterator[Live]:
    with live(speaking(SAID), engine=ROOM) as server:
        yield server


def read(calls: Any) -> list[tuple[str, Any]]:
    return [(call.function.name, json.loads(call.function.arguments)) for call in calls]


def rendered(server: Live) -> str:
    """The last prompt as the model saw it."""
    return cast(TemplateTokenizer, server.service.model.tokenizer).rendered


def test_a_whole_answer_has_channels(caller: Live) -> None:
    answer = caller.client().chat.completions.create(model=caller.model, **ASKED)
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me look."
    assert choice.message.model_extra == {"reasoning_content": "Two cities.", "reasoning": "Two cities."}
    assert read(choice.message.tool_calls) == CALLS
    assert len({call.id for call in choice.message.tool_calls or []}) == 2
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    thought = len(SAID.partition("</think>")[0]) + len("</think>")
    assert answer.usage.completion_tokens_details.reasoning_tokens == thought
    assert (answer.usage.model_extra or {})["reasoning_tokens"] == thought
    assert answer.usage.completion_tokens == len(SAID.encode())
    assert '"name": "weather"' in rendered(caller)


def test_a_stream_sends_channels_one_by_one(caller: Live) -> None:
    chunks = list(caller.client().chat.completions.create(model=caller.model, stream=True, **ASKED))
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert [delta.role for delta in deltas] == ["assistant"] + [None] * (len(deltas) - 1)
    assert "".join(delta.content or "" for delta in deltas) == "Let me look."
    assert "".join((delta.model_extra or {}).get("reasoning_content", "") for delta in deltas) == "Two cities."
    told = [call for delta in deltas for call in delta.tool_calls or []]
    for index, (name, given) in enumerate(CALLS):
        first, *rest = [call for call in told if call.index == index]
        assert (first.type, first.function and first.function.name) == ("function", name)
        assert first.id
        assert all(call.id is None and call.function and call.function.name is None for call in rest)
        assert (
            json.loads("".join((call.function and call.function.arguments) or "" for call in (first, *rest))) == given
        )
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == ["tool_calls"]


def test_the_clients_own_helper_reads_the_stream(caller: Live) -> None:
    with caller.client().chat.completions.stream(model=caller.model, **ASKED) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_completion().choices[0].message
    assert kinds.count("tool_calls.function.arguments.done") == 2
    assert (message.content, read(message.tool_calls)) == ("Let me look.", CALLS)


def test_snapshots_show_channels_and_tell_calls_once(caller: Live) -> None:
    shown = frames(caller.chat(**ASKED, diffusing=True).text)
    deltas = [frame["choices"][0]["delta"] for frame in shown]
    assert all("<" not in delta["content"] for delta in deltas)
    assert any(delta.get("reasoning_content") == "Two" and delta["content"] == "" for delta in deltas)
    told = [call for delta in deltas for call in delta["tool_calls"]]
    assert [(call["index"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in told] == [
        (index, *call) for index, call in enumerate(CALLS)
    ]
    last = shown[-1]
    assert (deltas[-1]["content"], deltas[-1]["reasoning_content"]) == ("Let me look.", "Two cities.")
    assert last["choices"][0]["finish_reason"] == "tool_calls"
    assert last["diffusion_meta"]["diffusion_progress"] == 1


def test_one_call_where_only_one_is_wanted(caller: Live) -> None:
    asked: Any = {**ASKED, "parallel_tool_calls": False}
    answer = caller.client().chat.completions.create(model=caller.model, **asked)
    assert read(answer.choices[0].message.tool_calls) == CALLS[:1]
    assert answer.choices[0].finish_reason == "tool_calls"
    kept = SAID[: SAID.index("</tool_call>") + len("</tool_call>")]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(kept.encode())
    streamed = caller.client().chat.completions.create(model=caller.model, stream=True, **asked)
    assert {call.index for chunk in streamed for call in chunk.choices[0].delta.tool_calls or []} == {0}


def test_without_tools_calls_are_text(caller: Live) -> None:
    changes: Any = ({"tool_choice": "none"}, {"tools": []})
    for change in changes:
        asked: Any = {**ASKED, **change}
        choice = caller.client().chat.completions.create(model=caller.model, **asked).choices[0]
        assert (choice.finish_reason, choice.message.tool_calls) == ("stop", None)
        assert choice.message.content == f"Let me look.\n{WRITTEN}"
        assert "<tools>" not in rendered(caller)


def test_an_answer_that_is_cut_says_so(caller: Live) -> None:
    cut = caller.chat(**{**ASKED, "max_tokens": len(SAID) - 20}).json()["choices"][0]
    assert cut["finish_reason"] == "length"
    assert len(cut["message"]["tool_calls"]) == 1
    assert cut["message"]["content"].startswith("Let me look.<tool_call>")
    thinking = caller.chat(**{**ASKED, "max_tokens": 12}).json()["choices"][0]["message"]
    assert (thinking["content"], thinking["reasoning_content"]) == (None, "Two")


def test_what_came_back_can_be_sent_again(caller: Live) -> None:
    message = caller.client().chat.completions.create(model=caller.model, **ASKED).choices[0].message
    ids = [call.id for call in message.tool_calls or []]
    results: Any = [{"role": "tool", "tool_call_id": id, "content": "rain"} for id in ids]
    for sent in (message, {**message.model_dump(), "content": None}):
        asked: Any = {**ASKED, "messages": [*MESSAGES, sent, *results]}
        caller.client().chat.completions.create(model=caller.model, **asked)
        assert 'weather({"city": "Zürich"})weather({"city": "Bern", "days": [1, 2]})' in rendered(caller)
        assert "[Two cities.]" in rendered(caller)
        assert rendered(caller).count("tool:rainweather") == 2


def test_effort_turns_reasoning_on_and_off(caller: Live) -> None:
    for effort in ("none", "minimal", "instant"):
        caller.chat(**ASKED, reasoning_effort=effort)
        assert rendered(caller).endswith("assistant:<think>\n\n</think>\n\n")
    for effort in ("low", "medium", "high", "xhigh", "max"):
        assert caller.chat(**ASKED, reasoning_effort=effort).status_code == 200
        assert rendered(caller).endswith("assistant:")
    caller.chat(**ASKED, chat_template_kwargs={"enable_thinking": False, "note": "hm"})
    assert rendered(caller).endswith("</think>\n\nhm")


@pytest.mark.parametrize(("effort", "threshold"), [("low", 0.85), ("max", 1.0)])
def test_effort_sets_the_threshold_of_a_commit(number_model: LoadedModel, effort: str, threshold: float) -> None:
    """As if the request had named the threshold itself; what somebody has set stays."""
    with live(number_model, ServerSettings(reasoning_parser="think")) as server:
        backend = Backend(server.service, ServerSettings(reasoning_parser="think"))
        wire = ChatRequest.model_validate({"model": "m", "messages": MESSAGES, "reasoning_effort": effort})
        talk = prepare(backend, wire)
        assert talk.preset(DecodeParams()) == {"threshold": threshold}
        assert talk.preset(DecodeParams(policy="low_confidence_static", steps=2)) == {}
        assert talk.preset(DecodeParams(threshold=0.5)) == {}
        assert talk.preset(DecodeParams(noise="cosine")) == {}
        shared: Any = {"temperature": 0.05, "seed": 3, "max_tokens": 12}
        asked = server.chat(**shared, reasoning_effort=effort).json()
        named = server.chat(**shared, diffusion={"threshold": threshold}).json()
        assert asked["choices"][0]["message"] == named["choices"][0]["message"]
        assert refused(server.chat(reasoning_effort="none"))["param"] == "reasoning_effort"


def test_a_template_that_opens_the_channel_is_noticed() -> None:
    template = TEMPLATE + "{% if add_generation_prompt %}<think>\n{% endif %}"
    with live(speaking("Hm.\n</think>\n\nYes.", template), engine=ROOM) as server:
        message = server.chat(messages=MESSAGES, max_tokens=40).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("Hm.", "Yes.")


def test_a_model_without_a_tool_template_is_told_in_the_system_message() -> None:
    with live(speaking('<tool_call>[{"name": "weather", "arguments": {}}]</tool_call>', PLAIN), engine=ROOM) as server:
        client = server.client()
        message = client.chat.completions.create(model=server.model, **ASKED).choices[0].message
        assert read(message.tool_calls) == [("weather", {})]
        assert rendered(server).startswith("system:You can call functions.")
        assert json.dumps(WEATHER) in rendered(server)
        id = (message.tool_calls or [])[0].id
        results: Any = [{"role": "tool", "tool_call_id": id, "content": "rain"}] * 2
        system = {"role": "system", "content": "Be brief."}
        asked: Any = {**ASKED, "messages": [system, *MESSAGES, message, *results]}
        client.chat.completions.create(model=server.model, **asked)
        assert rendered(server).startswith("system:Be brief.\n\nYou can call functions.")
        assert 'assistant:<tool_call>[{"name": "weather", "arguments": {}}]</tool_call>\n' in rendered(server)
        response = "<tool_response>\nrain\n</tool_response>"
        assert f"user:{response}\n{response}\n" in rendered(server)
        assert client.models.list().data[0].model_extra["supported_features"] == ["tools"]  # type: ignore[index]


def test_malformed_calls_stay_text() -> None:
    said = '<tool_call>{"name": "weather", "arguments": {]}</tool_call>'
    with live(speaking(said), engine=ROOM) as server:
        choice = server.chat(**ASKED).json()["choices"][0]
        streamed = frames(server.chat(**ASKED, stream=True).text)
    assert choice["message"]["content"] == said
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "stop"
    assert "".join(frame["choices"][0]["delta"].get("content", "") for frame in streamed) == said


STRICT = {"type": "function", "function": {"name": "f", "strict": True}}
NO_ID = [*MESSAGES, {"role": "tool", "content": "7", "tool_call_id": "x"}]


def made(arguments: str) -> list[dict[str, Any]]:
    function = {"name": "weather", "arguments": arguments}
    return [*MESSAGES, {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"tools": [WEATHER, STRICT]}, "tools[1].function.strict"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "custom", "custom": {"name": "a"}}]}, "tools[0].type"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "weather"}}}, "tool_choice"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"function_call": {"name": "f"}}, "function_call"),
        ({"messages": [*MESSAGES, {"role": "function", "name": "f", "content": "7"}]}, "messages[1].role"),
        ({"messages": NO_ID}, "messages[1].tool_call_id"),
        ({"messages": made("{")}, "messages[1].tool_calls[0].function.arguments"),
        ({"messages": made("[]")}, "messages[1].tool_calls[0].function.arguments"),
        ({"messages": [{"role": "user", "content": "a", "reasoning_content": "b"}]}, "messages[0].reasoning_content"),
        (
            {"messages": [{"role": "user", "content": "a", "provider_specific_fields": {"b": 1}}]},
            "messages[0].provider_specific_fields",
        ),
        ({"reasoning_effort": "wild"}, "reasoning_effort"),
        ({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}, "reasoning_effort"),
        ({"reasoning_summary": True}, "reasoning_summary"),
        ({"chat_template_kwargs": {"colour": 1}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs"),
        ({"thinking_budget": -1}, "thinking_budget"),
        ({"thinking_budget": "5"}, "thinking_budget"),
        ({"thinking_budget": 5, "reasoning_effort": "none"}, "thinking_budget"),
        ({"thinking_budget": 5, "stream_format": "events", "seams": True}, "seams"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(caller: Live, changes: dict[str, Any], param: str) -> None:
    assert refused(caller.chat(**{**ASKED, **changes}))["param"] == param


def test_a_model_without_channels_refuses_them(numbers: Live) -> None:
    for changes, param in (
        ({"tools": [WEATHER]}, "tools"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"thinking_budget": 5}, "thinking_budget"),
        ({"messages": made("{}")}, "messages[1].tool_calls"),
    ):
        assert refused(numbers.chat(**changes))["param"] == param
    assert numbers.chat(reasoning_effort="none", tool_choice="none", tools=[WEATHER]).status_code == 200


def test_litellms_copy_of_an_answer_may_be_sent_back(caller: Live) -> None:
    message = {"role": "assistant", "content": "a", "reasoning_content": "b"}
    seen: list[str] = []
    for extra in ({}, {"provider_specific_fields": {"reasoning": "b", "refusal": None}}):
        assert caller.chat(messages=[*MESSAGES, message | extra, *MESSAGES], max_tokens=1).status_code == 200
        seen.append(rendered(caller))
    assert seen[0] == seen[1]


def test_parsers_can_be_turned_off() -> None:
    settings = ServerSettings(reasoning_parser="none", tool_parser="none")
    with live(speaking(SAID), settings, engine=ROOM) as server:
        message = server.chat(messages=MESSAGES, max_tokens=400).json()["choices"][0]["message"]
        assert message["content"] == SAID
        assert "reasoning" not in message
        with pytest.raises(openai.BadRequestError):
            server.client().chat.completions.create(model=server.model, **ASKED)
