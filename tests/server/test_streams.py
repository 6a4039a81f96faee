"""Snapshots and typed events over the wire: what a playground and Inception's clients read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.engine.talk import talking
from tests.server.live import Live, live

import anyorder
from anyorder.models.loaded import LoadedModel

MESSAGES: Any = [{"role": "user", "content": "7 8 9"}]


def frames(text: str) -> list[dict[str, Any]]:
    """The data of all events but the last, which says that it is the last."""
    *events, last = [event for event in text.split("\n\n") if event]
    assert last == "data: [DONE]"
    return [json.loads(event[event.index("data: ") + 6 :]) for event in events]


@pytest.mark.parametrize("family", ["llada", "sdar", "llama"])
def test_snapshots_are_the_whole_text_with_true_progress(family: str) -> None:
    model = talking(family)
    expected = anyorder.generate(model, MESSAGES, max_new_tokens=9)
    with live(model) as server:
        answer = server.chat(
            messages=MESSAGES, max_tokens=9, diffusing=True, stream=True, stream_options={"include_usage": True}
        )
    assert answer.headers["content-type"].startswith("text/event-stream")
    *shown, last = frames(answer.text)
    assert last["choices"] == []
    assert last["usage"]["diffusion"]["passes"] == expected.stats.passes
    progress = [frame["diffusion_meta"]["diffusion_progress"] for frame in shown]
    assert progress == sorted(progress)
    assert progress[-1] == 1
    assert all(0 < value < 1 for value in progress[:-1])
    assert all(frame["choices"][0]["delta"]["role"] == "assistant" for frame in shown)
    assert [frame["choices"][0]["finish_reason"] for frame in shown] == [None] * (len(shown) - 1) + [
        expected.finish_reason
    ]
    assert shown[-1]["choices"][0]["delta"]["content"] == expected.text
    assert all(frame["diffusion_meta"]["diffusion_content"] and frame["usage"] is None for frame in shown)


def test_diffusing_streams_by_itself(numbers: Live) -> None:
    assert frames(numbers.chat(diffusing=True).text)
    with numbers.http() as http:
        body = {"model": numbers.model, "prompt": "7 8", "diffusing": True}
        last = frames(http.post("/v1/completions", json=body).text)[-1]
    assert last["object"] == "text_completion"
    assert last["diffusion_meta"] == {"diffusion_content": True, "diffusion_progress": 1.0}


def test_typed_events_are_those_of_the_engine(numbers: Live, number_model: LoadedModel) -> None:
    stream = anyorder.stream(number_model, MESSAGES, max_new_tokens=9, seed=4, temperature=1.2)
    expected = [event.as_dict() for event in stream]
    answer = numbers.chat(messages=MESSAGES, max_tokens=9, seed=4, temperature=1.2, stream_format="events")
    found = frames(answer.text)
    names = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert names == [event["type"] for event in found] == [event["type"] for event in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours["index"] == theirs.pop("request") == 0
        theirs["finish_reason"] = theirs.pop("reason", None)
        for name, value in json.loads(json.dumps(theirs)).items():
            assert name in ("confidence", "passes", "pass_index", "positions") or ours.get(name) == value
    committed = [event for event in found if event["type"] == "committed"]
    assert all(len(event["texts"]) == len(event["ids"]) for event in committed)
    assert "".join(event["text_delta"] for event in found) == stream.generations()[0].text


def test_typed_events_end_where_a_stop_string_does(letters: Live) -> None:
    answer = letters.chat(
        messages=[{"role": "user", "content": "hi"}], stop="ld", max_tokens=40, stream_format="events"
    )
    found = frames(answer.text)
    assert "".join(event["text_delta"] for event in found) == "ör"
    assert [(event["type"], event.get("finish_reason")) for event in found[-1:]] == [("finished", "stop")]
    assert sum(event["type"] == "finished" for event in found) == 1
