"""LangChain's ChatOpenAI against the server, by chat completions and by responses."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.server.channels.test_chat_channels import CALLS, rendered
from tests.server.clients.elsewhere import HERE, PYTHON, need, report
from tests.server.live import Live

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def seen(letters: Live, caller: Live) -> dict[str, Any]:
    need("langchain_openai")
    return report([PYTHON, str(HERE / "langchain_client.py")], {"letters": letters, "caller": caller})


def said(letters: Live, content: str) -> str:
    message = {"role": "user", "content": content}
    return letters.chat(messages=[message], max_tokens=12).json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize("surface", ["chat", "responses"])
def test_answers(seen: dict[str, Any], letters: Live, surface: str) -> None:
    told = seen[surface]
    assert told["texts"] == [said(letters, "hi")] * 4  # invoke, stream, ainvoke, astream
    assert told["tokens"] == [12] * 4
    assert told["batch"] == told["abatch"] == [said(letters, content) for content in ("a", "ab", "abc", "abcd")]


@pytest.mark.parametrize("surface", ["tools", "responses_tools"])
def test_bound_tools(seen: dict[str, Any], caller: Live, surface: str) -> None:
    calls = [list(call) for call in CALLS]
    assert seen[surface]["calls"] == [calls] * 3  # invoke, stream, and with the results sent back
    assert seen[surface]["text"] == "Let me look."
    assert "1 degrees" in rendered(caller)


def test_log_probabilities(seen: dict[str, Any]) -> None:
    entries = seen["logprobs"]["content"]
    assert len(entries) == 12
    assert all(math.isfinite(entry["logprob"]) and len(entry["top_logprobs"]) == 1 for entry in entries)


def test_texts(seen: dict[str, Any], letters: Live) -> None:
    with letters.http() as http:
        answer = http.post("/v1/completions", json={"model": letters.model, "prompt": "hi", "max_tokens": 12})
    assert seen["completion"] == answer.json()["choices"][0]["text"] != ""


def test_structure_is_refused_and_not_pretended(seen: dict[str, Any]) -> None:
    for name, param in (("schema", "response_format"), ("function", "tool_choice")):
        *kinds, told = seen[name]
        assert "BadRequestError" in kinds
        assert told == param


def test_unknown_models(seen: dict[str, Any]) -> None:
    *kinds, param = seen["unknown_model"]
    assert "NotFoundError" in kinds
    assert param == "model"
