"""Conformance tools against the server: what fails is what is refused on purpose, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.pictures import write_talking
from tests.server.channels.speaking import speaking
from tests.server.channels.test_chat_channels import ROOM
from tests.server.clients.elsewhere import PYTHON, need, run
from tests.server.live import Live, live

import anyorder
from anyorder import DecodeParams
from anyorder.server.settings import ServerSettings

pytestmark = pytest.mark.slow

REFUSED = {"openai-chat": {"chat-tool-calling"}, "open-responses": {"tool-calling"}}  # a forced call
OF_TEXT = {"openai-chat": {"chat-image-input"}, "open-responses": {"image-input"}}
"""Refused where the model reads text only."""
NOT_FOR_US = {
    "openai-chat": {"chat-reasoning-summary"},  # run for names like o1 and gpt-5 only
    "open-responses": {"reasoning-summary"},
}
WARNED = {"openai-chat": set[str](), "open-responses": {"compact-response"}}  # optional, and not there


@pytest.fixture(scope="module")
def speaker() -> Iterator[Live]:
    """A server whose model says something short and ends, so that answers are complete."""
    with live(speaking("Hello there, you."), engine=ROOM) as server:
        yield server


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server whose model reads images; of random weights, it is led to write a few letters and to end."""
    folder = tmp_path_factory.mktemp("viewer")
    write_talking(folder)
    model = anyorder.load(folder, dtype="float32")
    assert model.tokenizer is not None
    likely = (*model.tokenizer.encode_text("ab"), *model.stop_ids)
    defaults = DecodeParams(logit_bias=dict.fromkeys(likely, 50.0), max_new_tokens=256)
    with live(model, ServerSettings(name="viewer"), engine=ROOM, defaults=defaults) as server:
        yield server


@pytest.mark.parametrize("form", ["openai-chat", "open-responses"])
def test_llm_comply(speaker: Live, form: str) -> None:
    check_llm_comply(speaker, form, REFUSED[form] | OF_TEXT[form])


@pytest.mark.parametrize("form", ["openai-chat", "open-responses"])
def test_llm_comply_with_a_model_that_reads_images(viewer: Live, form: str) -> None:
    check_llm_comply(viewer, form, REFUSED[form])


def check_llm_comply(server: Live, form: str, refused: set[str]) -> None:
    """What fails is what is refused."""
    need("llm_comply")
    where = ["-u", f"{server.url}/v1", "-k", "none", "-m", server.model]
    done = run([str(Path(PYTHON).with_name("llm-comply")), "--format", form, "--json", *where])
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    seen = {
        kind: {each["id"] for each in results if each["status"] == kind} for kind in ("passed", "failed", "skipped")
    }
    assert seen["failed"] == refused, done.stdout
    assert seen["skipped"] == NOT_FOR_US[form]
    assert {each["id"] for each in results if each.get("warnings")} == WARNED[form]
    assert len(seen["passed"]) >= 6
    for each in results:
        if each["status"] == "failed":
            assert each["errors"][0].startswith("HTTP 400"), each


def test_compatcanary(speaker: Live) -> None:
    folders = [Path(folder) for folder in os.environ.get("NODE_PATH", "").split(os.pathsep) if folder]
    script = next((path for folder in folders if (path := folder / "compatcanary/src/cli.js").exists()), None)
    node = shutil.which("node")
    if node is None or script is None:
        pytest.skip("NODE_PATH names no folder that has the package compatcanary")
    where = ["--base-url", f"{speaker.url}/v1", "--model", speaker.model]
    done = run([node, str(script), "scan", *where, "--format", "json", "--fail-on", "never"])
    results = {each["id"]: each for each in json.loads(done.stdout)["results"]}
    failed = {
        name: json.loads(each["error"]["responseBody"])["error"]["param"]
        for name, each in results.items()
        if each["status"] != "pass"
    }
    assert failed == {"chat.tool_call": "tools[0].function.strict", "chat.structured_output": "response_format"}
    assert len(results) >= 7
