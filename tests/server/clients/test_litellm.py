"""LiteLLM against the server, as OpenAI's and as Inception's."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.scripted import scripted_model
from tests.server.channels.test_chat_channels import CALLS
from tests.server.clients.elsewhere import HERE, PYTHON, need, report
from tests.server.live import Live, live

from anyorder.server.settings import ServerSettings

pytestmark = pytest.mark.slow

MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def seen(letters: Live, caller: Live) -> dict[str, Any]:
    need("litellm")
    with (
        live(scripted_model(), ServerSettings(api_keys=("right",))) as locked,
        live(scripted_model(), ServerSettings(requests_per_minute=1)) as limited,
    ):
        servers = {"letters": letters, "caller": caller, "locked": locked, "limited": limited}
        return report([PYTHON, str(HERE / "litellm_client.py")], servers, LITELLM_LOCAL_MODEL_COST_MAP="True")


@pytest.mark.parametrize("provider", ["openai", "inception"])
def test_chats(seen: dict[str, Any], letters: Live, provider: str) -> None:
    expected = letters.chat(messages=MESSAGES, max_tokens=12).json()["choices"][0]["message"]["content"]
    chat = seen[provider]
    assert chat["whole"] == chat["async"] == chat["streamed"] == expected
    assert (chat["finish_reason"], chat["tokens"], chat["streamed_tokens"]) == ("length", 12, [12])


def test_inceptions_own_parameters(seen: dict[str, Any]) -> None:
    told, expected = seen["mercury"], seen["inception"]["whole"]
    assert told["said"] == told["shown"][-1] == expected
    assert len(told["shown"]) > 2
    whole = [snapshot.rstrip("\N{REPLACEMENT CHARACTER}") for snapshot in told["shown"]]  # a character in the making
    assert all(expected.startswith(snapshot) for snapshot in whole)  # this model decides from left to right


@pytest.mark.parametrize("provider", ["openai", "inception"])
def test_tools_and_reasoning(seen: dict[str, Any], provider: str) -> None:
    told = seen[f"{provider}_tools"]
    calls = [list(call) for call in CALLS]
    assert told["calls"] == told["again"] == told["streamed"] == calls
    assert (told["content"], told["finish_reason"]) == ("Let me look.", "tool_calls")
    assert told["reasoning"] == told["streamed_reasoning"] == "Two cities."


def test_texts(seen: dict[str, Any], letters: Live) -> None:
    with letters.http() as http:
        for name, path in (("text", "completions"), ("fim", "fim/completions")):
            answer = http.post(f"/v1/{path}", json={"model": letters.model, "prompt": "hi", "max_tokens": 12})
            assert seen[name]["whole"] == seen[name]["streamed"] == answer.json()["choices"][0]["text"] != ""


def test_responses(seen: dict[str, Any], letters: Live) -> None:
    expected = letters.chat(messages=MESSAGES, max_tokens=16).json()["choices"][0]["message"]["content"]
    assert seen["responses"] == [expected] * 2


def test_a_limit_is_told_as_one(seen: dict[str, Any]) -> None:
    first, second = seen["rate"]
    assert first == []
    assert second[0] == "RateLimitError"


def test_errors_have_litellms_classes(seen: dict[str, Any]) -> None:
    for name, kind, says in (
        ("unknown_model", "NotFoundError", "gpt-7"),
        ("schema", "BadRequestError", "response_format"),
        ("wrong", "BadRequestError", "temperature"),
        ("key", "AuthenticationError", "key"),
    ):
        assert seen[name][0] == kind, seen[name]
        assert says in seen[name][1]
