"""Answers that are corrected while they come: text only grows, snapshots and events show every change."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest
from tests.engine.talk import talking
from tests.server.live import Live, live

import anyorder
from anyorder.models.loaded import LoadedModel

MESSAGES: Any = [{"role": "user", "content": "7 8 9"}]
LENGTH = 21
EDIT: dict[str, Any] = {"edit_threshold": 0.0, "edit_passes": 3, "threshold": 0.06}


KINDS = {
    "edits": EDIT,
    "edits earlier blocks": {**EDIT, "block_length": 4, "edit_blocks": 2},
    "inserts and deletes": EDIT,
}


@pytest.fixture(scope="module", params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def edit(kind: str) -> dict[str, Any]:
    return KINDS[kind]


@pytest.fixture(scope="module")
def model(kind: str) -> LoadedModel:
    plain = talking("llada2_moe")
    return replace(plain, edit_ids=(22, 23)) if kind == "inserts and deletes" else plain


@pytest.fixture(scope="module")
def server(model: LoadedModel) -> Generator[Live]:
    with live(model) as running:
        yield running


def data_of(text: str) -> list[dict[str, Any]]:
    events = [event for event in text.split("\n\n") if "data: {" in event]
    return [json.loads(event[event.index("data: ") + 6 :]) for event in events]


def ask(server: Live, edit: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return data_of(server.chat(messages=MESSAGES, max_tokens=LENGTH, stream=True, diffusion=edit, **fields).text)


def test_streamed_text_is_the_text_in_the_end(server: Live, model: LoadedModel, edit: dict[str, Any]) -> None:
    expected = anyorder.generate(model, MESSAGES, max_new_tokens=LENGTH, **edit)
    assert expected.stats.revised > 0
    chunks = ask(server, edit)
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == expected.text


def test_snapshots_show_what_is_taken_back(server: Live, model: LoadedModel, edit: dict[str, Any]) -> None:
    expected = anyorder.generate(model, MESSAGES, max_new_tokens=LENGTH, **edit)
    shown = ask(server, edit, diffusing=True)
    assert shown[-1]["choices"][0]["delta"]["content"] == expected.text
    progress = [frame["diffusion_meta"]["diffusion_progress"] for frame in shown]
    assert progress == sorted(progress)
    assert len(shown) > 2


def test_events_rebuild_the_canvas(server: Live, model: LoadedModel, edit: dict[str, Any]) -> None:
    expected = anyorder.generate(model, MESSAGES, max_new_tokens=LENGTH, **edit)
    decided: dict[int, int] = {}
    kinds = set[str]()
    for event in ask(server, edit, stream_format="events"):
        kinds.add(event["type"])
        if event["type"] in ("committed", "revised"):
            assert event["provisional"]
            decided |= dict(zip(event["slots"], event["ids"], strict=True))
        if event["type"] == "remasked":
            for slot in event["slots"]:
                del decided[slot]
    assert {"committed", "revised", "blockfinished", "finished"} <= kinds
    first = len(expected.prompt_ids)
    assert [decided[slot] for slot in range(first, first + len(expected.ids))] == list(expected.ids)


def test_usage_counts_corrections(server: Live, model: LoadedModel, edit: dict[str, Any]) -> None:
    expected = anyorder.generate(model, MESSAGES, max_new_tokens=LENGTH, **edit)
    answer = server.chat(messages=MESSAGES, max_tokens=LENGTH, diffusion=edit).json()
    assert answer["usage"]["diffusion"]["revised"] == expected.stats.revised
    assert answer["choices"][0]["message"]["content"] == expected.text
