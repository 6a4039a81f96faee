"""Text on its way to the terminal, and the live canvas on a real (pseudo) terminal."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console
from rich.text import Text
from tests.cli.conftest import Cli
from tests.cli.scripted import chat_length, scripted_text

from anyorder.cli import decoding
from anyorder.cli.canvas_view import MASK_CELL, CanvasView
from anyorder.cli.terminal import can_animate, one_line, safe, write_out
from anyorder.events import Committed, Event


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünï\ntext", "plain ünï\ntext"),
        ("a\tb", "a   b"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x7f\x9b", "␡\ufffd"),
        ("abc\u202edef\u2066", "abc\ufffddef\ufffd"),
        ("\ud800", "\ufffd"),
    ],
)
def test_control_characters_become_visible(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_an_error_is_one_line() -> None:
    assert one_line(" two\n\tlines\x1b ") == "two lines␛"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_the_exact_text_and_a_terminal_a_safe_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, expected in ((io.StringIO(), "\x1b[1m\n"), (Terminal(), "␛[1m\n")):
        monkeypatch.setattr(sys, "stdout", stream)
        write_out("\x1b[1m")
        assert stream.getvalue() == expected


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Give the command an 80-column terminal with colours that is redrawn at every event."""
    terminal = Terminal()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(decoding, "FRAME_S", 0.0)
    monkeypatch.setattr(decoding, "out_console", lambda: Console(file=terminal, width=80, height=24, markup=False))
    return terminal


def test_the_canvas_fills_and_leaves_the_coloured_answer(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    result = cli("generate", "Hi", "--max-new-tokens", "6")
    expected = scripted_text(chat_length("Hi"), 6)
    frames = [Text.from_ansi(frame).plain for frame in terminal.getvalue().split("╭─")]
    assert (result.code, result.out) == (0, "")
    for done in range(7):
        shown = [frame for frame in frames if f"{done} of 6 slots" in frame]
        assert shown
        assert f"│ {expected[:done]}{MASK_CELL * (6 - done)} " in shown[0]
    left = terminal.getvalue().rsplit("╯", 1)[1]
    assert Text.from_ansi(left).plain.strip() == expected.strip()
    assert "\x1b[38;5;" in left  # in colour


def test_an_interrupted_answer_leaves_what_was_decided(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    apply = CanvasView.apply

    def interrupted(self: CanvasView, event: Event) -> None:
        apply(self, event)
        if isinstance(event, Committed) and event.pass_index == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(CanvasView, "apply", interrupted)
    assert cli("generate", "Hi", "--max-new-tokens", "6").code == 130
    left = Text.from_ansi(terminal.getvalue().rsplit("╯", 1)[1]).plain
    assert scripted_text(chat_length("Hi"), 3) + MASK_CELL * 3 in left


@pytest.mark.parametrize(("args", "variables"), [(["--no-live"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})])
def test_plain_text_where_nothing_can_or_shall_move(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, args: list[str], variables: dict[str, str]
) -> None:
    terminal = on_terminal(monkeypatch)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = cli("generate", "Hi", "--max-new-tokens", "6", *args)
    assert result.out == scripted_text(chat_length("Hi"), 6) + "\n"
    assert terminal.getvalue() == ""


def test_only_a_terminal_with_colours_is_animated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert can_animate(Console(file=Terminal(), force_terminal=True))
    assert not can_animate(Console(file=io.StringIO()))
    assert not can_animate(Console(file=Terminal(), no_color=True))
