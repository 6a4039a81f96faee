"""`anyorder chat`: turns, commands, and errors that do not end the conversation."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Cli, Loads
from tests.cli.scripted import chat_length, scripted_text

import anyorder


def test_every_turn_sees_the_ones_before(cli: Cli) -> None:
    result = cli("chat", "--max-new-tokens", "6", stdin=b"Hi\nAnd then?\n")
    first = scripted_text(chat_length("Hi"), 6)
    second = scripted_text(chat_length("Hi", first, "And then?"), 6)
    assert result.code == 0
    assert result.out == f"{first}\n{second}\n"
    assert result.err.count("tok/s") == 2


def test_the_cache_is_kept_between_turns(cli: Cli) -> None:
    result = cli("chat", "--max-new-tokens", "6", stdin=b"A rather long beginning of a talk\nAnd then?\n")
    positions = [
        int(line.split(" positions")[0].split()[-1]) for line in result.err.splitlines() if "positions" in line
    ]
    assert positions[1] < positions[0]


def test_reset_forgets_and_system_starts_anew(cli: Cli) -> None:
    result = cli("chat", "--max-new-tokens", "6", stdin=b"Hi\n/reset\nHi\n/system Be brief.\nHi\n/system\nHi\n")
    plain = scripted_text(chat_length("Hi"), 6)
    briefed = scripted_text(len(b"system:Be brief.\n") + chat_length("Hi"), 6)
    assert result.out.splitlines() == [plain, plain, briefed, plain]


def test_a_system_message_from_the_command_line_outlives_a_reset(cli: Cli) -> None:
    result = cli("chat", "--system", "S", "--max-new-tokens", "6", stdin=b"Hi\n/reset\nHi\n")
    briefed = scripted_text(len(b"system:S\n") + chat_length("Hi"), 6)
    assert result.out.splitlines() == [briefed, briefed]


@pytest.mark.parametrize("leave", [b"/quit\n", b"/exit\n", b""])
def test_quit_and_the_end_of_the_input_leave(cli: Cli, leave: bytes) -> None:
    result = cli("chat", stdin=b"\n  \n" + leave + (b"never read\n" if leave else b""))
    assert (result.code, result.out) == (0, "")
    assert "/reset  /system TEXT" in result.err


def test_a_wrong_line_is_told_and_the_talk_goes_on(cli: Cli) -> None:
    result = cli("chat", "--max-new-tokens", "6", stdin=b"/rest\n" + b"x" * 600 + b"\nHi\n/help\n")
    assert result.code == 0
    assert "error: unknown command /rest; known: /help, /quit, /reset, /system TEXT" in result.err
    assert "shorten them by" in result.err
    assert result.out.splitlines() == [scripted_text(chat_length("Hi"), 6)]  # the long line is not remembered
    assert result.err.count("/reset  /system TEXT") == 2


def test_ctrl_c_stops_the_answer_and_not_the_talk(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    send = anyorder.ChatSession.send
    turns: list[str] = []

    def interrupted(self: anyorder.ChatSession, text: str) -> anyorder.EventStream:
        turns.append(text)
        if len(turns) == 1:
            raise KeyboardInterrupt
        return send(self, text)

    monkeypatch.setattr(anyorder.ChatSession, "send", interrupted)
    result = cli("chat", "--max-new-tokens", "6", stdin=b"Stop me\nHi\n")
    assert result.code == 0
    assert "(stopped)" in result.err
    assert result.out.splitlines() == [scripted_text(chat_length("Hi"), 6)]


def test_ctrl_c_at_the_prompt_clears_the_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter([KeyboardInterrupt(), "Hi", EOFError()])

    def read(_prompt: str) -> str:
        match next(lines):
            case str(line):
                return line
            case error:
                raise error

    monkeypatch.setattr("builtins.input", read)
    result = cli("chat", "--max-new-tokens", "6")
    assert result.code == 0
    assert result.out.splitlines() == [scripted_text(chat_length("Hi"), 6)]


def test_a_model_without_template_cannot_chat(cli: Cli, loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads.model.tokenizer, "has_chat_template", False)
    result = cli("chat")
    assert result.code == 1
    assert "scripted has no chat template; use anyorder generate --raw" in result.err


def test_wrong_flags_are_told_before_the_model_is_loaded(cli: Cli, loads: Loads) -> None:
    assert cli("chat", "--temperature", "-1").code == 2
    assert loads.calls == []
