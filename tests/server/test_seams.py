"""Seams at the end of a stream of events: those that Python measures, through the engine that everybody shares."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.engine.talk import talking
from tests.server.live import Live, live

import anyorder
from anyorder.seams import measure_seams

MESSAGES: Any = [{"role": "user", "content": "7 8 9"}]
HOW: dict[str, Any] = {"threshold": 0.0, "block_length": 4}


def named(text: str) -> list[tuple[str, dict[str, Any]]]:
    """(event, data) of a stream, without its end."""
    *events, last = [event for event in text.split("\n\n") if event and not event.startswith(":")]
    assert last == "data: [DONE]"
    pairs = [event.removeprefix("event: ").split("\ndata: ") for event in events]
    return [(name, json.loads(data)) for name, data in pairs]


@pytest.mark.parametrize("family", ["llada", "sdar"])
def test_they_are_those_of_python(family: str) -> None:
    model = talking(family)
    run = anyorder.stream(model, MESSAGES, max_new_tokens=9, **HOW)
    run.generations()
    expected = measure_seams(model, run.events, max_new_tokens=9, **HOW)
    with live(model) as server:
        found = named(
            server.chat(messages=MESSAGES, max_tokens=9, stream_format="events", seams=True, diffusion=HOW).text
        )
        plain = named(server.chat(messages=MESSAGES, max_tokens=9, stream_format="events", diffusion=HOW).text)
    seams = [data for name, data in found if name == "seam"]
    assert [name for name, _ in found if name != "seam"] == [name for name, _ in plain]
    assert [tuple(seam["slots"]) for seam in seams] == [gap.slots for gap in expected.passes]
    assert [seam["gap"] for seam in seams] == pytest.approx([gap.gap for gap in expected.passes], abs=1e-3)
    assert all(seam["index"] == 0 and seam["pairs"] for seam in seams)
    assert seams


def test_an_answer_that_a_stop_string_ended_has_seams_too() -> None:
    with live(talking("llada")) as server:
        answer = server.chat(
            messages=MESSAGES, max_tokens=16, stream_format="events", seams=True, diffusion=HOW, stop=["1", "2", "3"]
        )
    assert [name for name, _ in named(answer.text)].count("finished") == 1


def test_they_go_with_events_only(numbers: Live) -> None:
    refused = numbers.chat(seams=True)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "seams"
