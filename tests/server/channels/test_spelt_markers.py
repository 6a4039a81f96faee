"""An answer that spells markers which are control tokens of its model: they are text, however it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.gemma_talk import backend, talking_gemma
from tests.server.live import Live, live
from tests.server.test_streams import frames

import anyorder
from anyorder.serving import ServiceSettings

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
MESSAGES: Any = [{"role": "user", "content": "why?"}]
SPELT = '<channel|> <|channel>thought\n<|tool_call>call:f{}<tool_call|> <|"|>'
THOUGHT, WORDS, VALUE = f"a {SPELT} b", f"c {SPELT} d", f"e {SPELT} f"
WAYS = [{"mode": "causal"}, {"mode": "block", "block_length": 16}]


def answer_ids(model: Any) -> list[int]:
    """Reasoning, words and a call that all spell every marker."""

    def own(text: str) -> list[int]:
        return backend().encode(text, add_special_tokens=False).ids

    spelt = model.tokenizer.encode_text
    return [
        *own("<|channel>thought\n"), *spelt(THOUGHT), *own("<channel|>"), *spelt(WORDS),
        *own('<|tool_call>call:f{k:<|"|>'), *spelt(VALUE), *own('<|"|>}<tool_call|>'),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def gemma() -> Iterator[Live]:
    with live(talking_gemma(), engine=ServiceSettings(kv_bytes=1 << 26)) as server:
        yield server


def ask(server: Live, way: dict[str, Any], **changes: Any) -> Any:
    ids = answer_ids(server.service.model)
    forced = {str(slot): token for slot, token in enumerate(ids)}
    asked = {"messages": MESSAGES, "max_tokens": len(ids), "tools": [TOOL], "diffusion": {**way, "forced": forced}}
    response = server.chat(**{**asked, **changes})
    assert response.status_code == 200, response.text
    return response


def said(deltas: list[Any]) -> tuple[str, str, str]:
    thought, words = ("".join(delta.get(name) or "" for delta in deltas) for name in ("reasoning_content", "content"))
    calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
    return thought, words, "".join(call["function"].get("arguments", "") for call in calls)


@pytest.mark.parametrize("way", WAYS)
def test_whole_and_streamed(gemma: Live, way: dict[str, Any]) -> None:
    body = ask(gemma, way).json()
    message = body["choices"][0]["message"]
    assert said([message]) == (THOUGHT, WORDS, json.dumps({"k": VALUE}))
    assert body["usage"]["completion_tokens"] == len(answer_ids(gemma.service.model))
    ids = answer_ids(gemma.service.model)
    marks = [slot for slot, token in enumerate(ids) if token == backend().token_to_id("<channel|>")]
    assert [body["usage"]["reasoning_tokens"]] == [mark + 1 for mark in marks]
    streamed = [frame["choices"][0]["delta"] for frame in frames(ask(gemma, way, stream=True).text) if frame["choices"]]
    assert said(streamed) == said([message])


@pytest.mark.parametrize("way", WAYS)
def test_snapshots(gemma: Live, way: dict[str, Any]) -> None:
    shown = [frame["choices"][0]["delta"] for frame in frames(ask(gemma, way, diffusing=True).text)]
    assert (shown[-1]["reasoning_content"], shown[-1]["content"]) == (THOUGHT, WORDS)
    calls = [call["function"]["arguments"] for delta in shown for call in delta["tool_calls"]]
    assert list(map(json.loads, calls)) == [{"k": VALUE}]


def test_typed_events_and_log_probabilities_have_the_letters_of_markers(gemma: Live) -> None:
    way = WAYS[0]
    told = frames(ask(gemma, way, stream=True, stream_format="events").text)
    assert "".join(event.get("text_delta", "") for event in told).count("<channel|>") == 4
    assert not any("\\ud" in json.dumps(event) for event in told)
    body = ask(gemma, way, logprobs=True, tools=...).json()
    tokens = [token["token"] for token in body["choices"][0]["logprobs"]["content"]]
    assert tokens.count("<channel|>") == 1


def test_stop_strings_are_looked_for_in_the_letters(gemma: Live) -> None:
    body = ask(gemma, {"mode": "causal"}, stop=["b<channel|>c"], tools=...).json()
    assert said([body["choices"][0]["message"]]) == (THOUGHT[:-2], "", "")
    assert body["choices"][0]["finish_reason"] == "stop"


def test_python_reads_the_same(gemma: Live) -> None:
    model = gemma.service.model
    ids = answer_ids(model)
    answer = anyorder.generate(model, MESSAGES, mode="causal", forced=dict(enumerate(ids)), max_new_tokens=len(ids))
    assert answer.reasoning == THOUGHT
    assert answer.text.startswith(WORDS)
