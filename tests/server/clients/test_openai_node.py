"""OpenAI's client for node against the server."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.scripted import scripted_model
from tests.server.channels.test_chat_channels import CALLS, rendered
from tests.server.clients.elsewhere import HERE, report
from tests.server.live import Live, live

from anyorder.server.settings import ServerSettings

pytestmark = pytest.mark.slow

NODE_PATH = os.environ.get("NODE_PATH", "")
"""The folder `node_modules` that has the client."""
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def seen(letters: Live, caller: Live) -> dict[str, Any]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not any((Path(folder) / "openai").is_dir() for folder in NODE_PATH.split(os.pathsep) if folder):
        pytest.skip("NODE_PATH names no folder that has the package openai")
    with (
        live(scripted_model(), ServerSettings(api_keys=("right",))) as locked,
        live(scripted_model(), ServerSettings(requests_per_minute=1)) as limited,
    ):
        servers = {"letters": letters, "caller": caller, "locked": locked, "limited": limited}
        return report([node, str(HERE / "openai_node.mjs")], servers)


def test_models(seen: dict[str, Any], letters: Live) -> None:
    assert seen["models"] == [letters.model] * 2  # listed, retrieved


def test_chats(seen: dict[str, Any], letters: Live) -> None:
    """Whole, by the stream helper, parsed, with the response beside it, streamed, and by events."""
    expected = letters.chat(messages=MESSAGES, max_tokens=40, stop=["!"]).json()
    assert seen["chats"]["texts"] == [expected["choices"][0]["message"]["content"]] * 6
    assert seen["chats"]["tokens"] == [expected["usage"]["completion_tokens"]] * 2
    assert seen["chats"]["request_id"] == [True, True]


def test_tools(seen: dict[str, Any], caller: Live) -> None:
    calls = [list(call) for call in CALLS]
    assert seen["tools"] == {"calls": [calls] * 3, "content": "Let me look.", "finish_reason": "tool_calls"}
    assert seen["response_tools"]["calls"] == [calls] * 2
    assert "rain" in rendered(caller)


def test_responses(seen: dict[str, Any], letters: Live) -> None:
    expected = letters.chat(messages=MESSAGES, max_tokens=12).json()["choices"][0]["message"]["content"]
    assert seen["responses"] == {"texts": [expected] * 3, "tokens": 12}


def test_a_stream_that_is_left(seen: dict[str, Any]) -> None:
    assert seen["aborted"] == 2  # `live` checks that nothing runs any more


def test_errors_have_the_clients_classes(seen: dict[str, Any]) -> None:
    errors = seen["errors"]
    assert errors["key"][:2] == ["AuthenticationError", 401]
    assert errors["model"] == ["NotFoundError", 404, "model", "model_not_found"]
    assert errors["schema"] == ["BadRequestError", 400, "response_format", "unsupported_parameter"]
    assert errors["value"][:3] == ["BadRequestError", 400, "temperature"]
    assert errors["rate"] == ["RateLimitError", 429, None, "rate_limit_exceeded"]
    assert errors["timeout"][0] == "APIConnectionTimeoutError"
