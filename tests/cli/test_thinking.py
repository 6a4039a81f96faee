"""Reasoning on the command line: apart from the answer, and switched with a flag."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli, Loads
from tests.server.channels.speaking import speaking

from anyorder.cli.canvas_view import CanvasView
from anyorder.events import Committed, Finished, Started

SAID = "<think>\nI see.\n</think>\n\nSo."
SHORT = ("--max-new-tokens", "60")


@pytest.fixture
def model(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    loads.model = speaking(SAID)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("flags", [(), ("--thinking",), ("--no-thinking",)])
def test_the_answer_is_on_stdout_and_the_reasoning_on_stderr(cli: Cli, loads: Loads, flags: tuple[str, ...]) -> None:
    result = cli("generate", "why?", *SHORT, *flags)
    assert (result.code, result.out) == (0, "So.\n")
    assert result.err.startswith("I see.\n\n")
    closed = loads.model.tokenizer.rendered.endswith("</think>\n\n")  # pyright: ignore
    assert closed == ("--no-thinking" in flags)
    answer = json.loads(cli("generate", "why?", "--json", *SHORT, *flags).out)
    assert (answer["text"], answer["reasoning"], bytes(answer["ids"]).decode()) == ("So.", "I see.", SAID)


@pytest.mark.usefixtures("model")
def test_chats_and_batches_have_it_too(cli: Cli, loads: Loads, tmp_path: Path) -> None:
    result = cli("chat", "--no-thinking", *SHORT, stdin=b"why?\nhow?\n")
    assert result.out == "So.\nSo.\n"
    assert result.err.count("I see.") == 2
    assert "assistant:So.[I see.]" in loads.model.tokenizer.rendered  # pyright: ignore
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"prompt": "why?"}\n', "utf-8")
    batch = ("generate", "--input", str(source), "--output", str(target), *SHORT)
    assert cli(*batch, "--thinking").code == 0
    record = json.loads(target.read_text("utf-8"))
    assert (record["text"], record["reasoning"], record["settings"]["thinking"]) == ("So.", "I see.", True)
    assert "use those or another --output" in cli(*batch, "--no-thinking").err


def test_what_has_no_chat_or_no_channel_refuses_the_flag(
    cli: Cli, loads: Loads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for flags in (("--raw",), ("--hole", "2"), ("--raw", "--input", "a", "--output", "b")):
        prompt = () if "--input" in flags else ("x",)
        result = cli("generate", *prompt, "--no-thinking", *flags)
        assert (result.code, "--no-thinking need the chat template" in result.err) == (2, True)
    assert "has a chat template without a reasoning channel" in cli("generate", "x", "--thinking").err
    monkeypatch.setattr(loads.model.tokenizer, "has_chat_template", False)
    assert "scripted has no chat template, so thinking cannot be switched" in cli("generate", "x", "--thinking").err


def test_a_canvas_leaves_the_answer_behind_its_reasoning() -> None:
    view = CanvasView(lambda ids: "".join(map(chr, ids)))
    said = "?see. \nSo."
    view.apply(Started(0, tuple(map(ord, said[:1])) + (0,) * (len(said) - 1), tuple(range(1, len(said))), 1))
    slots = tuple(range(1, len(said)))
    view.apply(Committed(0, 0, slots, tuple(map(ord, said[1:])), (1.0,) * len(slots)))
    view.apply(Finished(0, "length", 1, len(said)))
    assert view.answer(len(said) - 1).plain == "see. \nSo."
    assert view.answer(len(said) - 1, behind=4).plain == "So."
