"""Wrong requests are answered with 400 and the parameter's name, and harm nobody."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from tests.server.live import Live, live

from anyorder.models.loaded import LoadedModel
from anyorder.server.settings import ServerSettings
from anyorder.server.wire.common import NEUTRAL

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
USER = {"role": "user", "content": "7"}


def refused(response: Any, status: int = 400) -> dict[str, Any]:
    """The error of an answer, which must be one, in OpenAI's shape."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("application/json")
    assert response.headers["x-request-id"]
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert "Traceback" not in body["error"]["message"]
    assert len(response.content) < 8192
    return body["error"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"model": ...}, "model"),
    ({"model": 7}, "model"),
    ({"messages": ...}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": [USER, {"role": "wizard", "content": "7"}]}, "messages[1].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
     "messages[0].content[0]"),
    ({"messages": [{"role": "tool", "content": "7", "tool_call_id": "1"}]}, "messages[0].tool_call_id"),
    ({"messages": [{"role": "tool", "content": "7"}]}, "messages[0].tool_call_id"),
    ({"messages": [{**USER, "name": "eve"}]}, "messages[0].name"),
    ({"messages": [{**USER, "colour": "red"}]}, "messages[0].colour"),
    ({"messages": [USER] * 1025}, "messages"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": "6"}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"max_tokens": ..., "max_completion_tokens": -5}, "max_completion_tokens"),
    ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
    ({"n": 0}, "n"),
    ({"n": -1}, "n"),
    ({"n": 1000}, "n"),
    ({"n": True}, "n"),
    ({"n": 2.0}, "n"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    ({"stream": False, "diffusing": True}, "diffusing"),
    ({"stream": False, "stream_format": "events"}, "stream_format"),
    ({"stream_format": "snapshot"}, "stream_format"),
    ({"stream_format": "events", "diffusing": True}, "stream_format"),
    ({"temperature": -1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": 1e-9}, "temperature"),
    ({"temperature": 1, "top_p": 0}, "top_p"),
    ({"temperature": 0, "top_p": 1.1}, "top_p"),
    ({"temperature": 0, "top_k": -2}, "top_k"),
    ({"temperature": 1, "top_k": 0}, "top_k"),
    ({"seed": -1}, "seed"),
    ({"seed": 2**63}, "seed"),
    ({"seed": "1"}, "seed"),
    ({"stop": ["a"] * 5}, "stop"),
    ({"stop": [""]}, "stop"),
    ({"stop": ""}, "stop"),
    ({"stop": "a" * 65}, "stop"),
    ({"stop": [7]}, "stop[0]"),
    ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"logit_bias": {"8": 101}}, "logit_bias"),
    ({"logit_bias": {"-8": 1}}, "logit_bias"),
    ({"logit_bias": {"9999": 1}}, "logit_bias"),
    ({"logit_bias": {str(i): 1 for i in range(301)}}, "logit_bias"),
    ({"top_logprobs": 1}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logprobs": 1}, "logprobs"),
    ({"diffusion": {"treshold": 0.5}}, "diffusion.treshold"),
    ({"diffusion": {"threshold": 2}}, "diffusion.threshold"),
    ({"diffusion": {"policy": "nonsense"}}, "diffusion.policy"),
    ({"diffusion": {"mode": "causal"}}, "diffusion.mode"),
    ({"diffusion": {"block_length": 0}}, "diffusion.block_length"),
    ({"diffusion": {"stop_ids": "7"}}, "diffusion.stop_ids"),
    ({"diffusion": {"forced": {"a": 7}}}, "diffusion.forced"),
    ({"diffusion": {"measure_drift": True}}, "diffusion.measure_drift"),
    ({"diffusion": []}, "diffusion"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}}, "response_format"),
    ({"frequency_penalty": 0.5}, "frequency_penalty"),
    ({"presence_penalty": -1}, "presence_penalty"),
    ({"repetition_penalty": True}, "repetition_penalty"),
    ({"reasoning_effort": "high"}, "reasoning_effort"),
    ({"service_tier": "flex"}, "service_tier"),
    ({"store": True}, "store"),
    ({"prompt_embeds": "x"}, "prompt_embeds"),
    ({"chat_template": "{{ 1 }}"}, "chat_template"),
    ({"temprature": 1}, "temprature"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "param"), WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_parameter_is_named(numbers: Live, changes: dict[str, Any], param: str) -> None:
    error = refused(numbers.chat(**changes))
    assert error["param"] == param, error
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("name", NEUTRAL)
def test_what_cannot_be_done_is_refused_and_asking_for_nothing_is_not(numbers: Live, name: str) -> None:
    assert refused(numbers.chat(**{name: "something else"}))["param"] == name
    for value in (*NEUTRAL[name].values, None):
        assert numbers.chat(**{name: value}).status_code == 200


def test_labels_are_accepted(numbers: Live) -> None:
    labels = {"user": "eve", "metadata": {"a": "b"}, "safety_identifier": "x", "prompt_cache_key": "y"}
    assert numbers.chat(**labels, parallel_tool_calls=False).status_code == 200


COMPLETION_WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prompt": ...}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [[]]}, "prompt"),
    ({"prompt": ["7", ""]}, "prompt"),
    ({"prompt": [7, "8"]}, "prompt"),
    ({"prompt": [999]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": [True]}, "prompt"),
    ({"prompt": {"a": 1}}, "prompt"),
    ({"prompt": ["7"] * 65}, "prompt"),
    ({"prompt": ["7"] * 9}, "prompt"),
    ({"prompt": ["7"] * 3, "n": 3}, "prompt"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"suffix": ""}, "suffix"),
    ({"suffix": "8", "diffusion": {"mode": "causal"}}, "suffix"),
    ({"best_of": 2}, "best_of"),
    ({"logprobs": 6}, "logprobs"),
    ({"messages": [USER]}, "messages"),
]


@pytest.mark.parametrize(("changes", "param"), COMPLETION_WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_parameter_of_a_completion_is_named(numbers: Live, changes: dict[str, Any], param: str) -> None:
    body = {"model": numbers.model, "prompt": "7 8", **changes}
    with numbers.http() as http:
        response = http.post(COMPLETIONS, json={name: value for name, value in body.items() if value is not ...})
    assert (refused(response)["param"] or "").partition("[")[0] == param


@pytest.mark.parametrize("n", [60, 10**12])
def test_an_answer_that_does_not_fit_the_context_is_refused(numbers: Live, n: int) -> None:
    error = refused(numbers.chat(messages=[{"role": "user", "content": "7 " * 60}], max_tokens=n))
    assert error["code"] == "context_length_exceeded"
    assert "96" in error["message"]


GARBAGE: dict[str, bytes] = {
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "text": b'"x"',
    "truncated": b'{"model": "a"',
    "deep": b"[" * 100_000,
    "deep object": b'{"messages":' * 5000 + b"1" + b"}" * 5000,
    "deep but valid": b'{"metadata":' + b"[" * 70 + b"]" * 70 + b"}",
    "nan": b'{"temperature": NaN}',
    "infinite": b'{"temperature": Infinity}',
    "overflow": b'{"temperature": 1e999}',
    "long number": b'{"seed": ' + b"9" * 5000 + b"}",
    "not utf-8": b'{"model": "\xff"}',
    "utf-16": '{"model": "a"}'.encode("utf-16"),
    "lone surrogate": b'{"model": "\\ud800"}',
    "two values": b"{} {}",
    "repeated key": b'{"model": "tiny sdar", "messages": [{"role": "user", "role": "user", "content": "7"}]}',
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused(numbers: Live, name: str) -> None:
    with numbers.http() as http:
        response = http.post(CHAT, content=GARBAGE[name], headers={"content-type": "application/json"})
        error = refused(response)
    assert error["code"] == "invalid_json"
    assert numbers.chat().status_code == 200


def test_other_kinds_of_bodies_are_refused(numbers: Live) -> None:
    body = json.dumps({"model": numbers.model, "messages": [USER]}).encode()
    with numbers.http() as http:
        for headers in ({}, {"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}):
            refused(http.post(CHAT, content=body, headers=headers), 415)
        packed = {"content-type": "application/json", "content-encoding": "gzip"}
        refused(http.post(CHAT, content=body, headers=packed), 415)


def test_a_body_is_counted_while_it_is_read(number_model: LoadedModel) -> None:
    kind = {"content-type": "application/json"}
    with live(number_model, ServerSettings(max_body_bytes=1000)) as server, server.http() as http:
        assert refused(http.post(CHAT, content=b" " * 1001, headers=kind), 413)["code"] == "body_too_large"
        chunks = (b" " * 100 for _ in range(50))
        assert refused(http.post(CHAT, content=chunks, headers=kind), 413)["code"] == "body_too_large"
        assert server.chat().status_code == 200


def test_unknown_paths_and_methods_are_refused_in_the_same_shape(numbers: Live) -> None:
    with numbers.http() as http:
        assert refused(http.get("/v1/nothing"), 404)["code"] == "not_found"
        assert refused(http.post("/v1/embeddings", json={}), 404)["code"] == "not_found"
        wrong = http.get(CHAT)
        assert refused(wrong, 405)["code"] == "method_not_allowed"
        assert wrong.headers["allow"] == "POST"


def test_the_client_raises_what_it_would_at_openai(numbers: Live) -> None:
    client = numbers.client()
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-7", messages=[{"role": "user", "content": "7"}])
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(
            model=numbers.model, messages=[{"role": "user", "content": "7"}], frequency_penalty=1.0
        )
    assert bad.value.param == "frequency_penalty"
