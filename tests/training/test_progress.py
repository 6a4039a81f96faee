from __future__ import annotations

import io

import pytest
from rich.console import Console

from anyorder.training import progress
from anyorder.training.progress import Bar


def drawn(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, shown: bool) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120)
    monkeypatch.setattr(progress, "Console", lambda **_: console)
    with Bar(2, 10, shown=shown) as bar:
        bar.step(3)
        bar.show({"loss": 1.23456, "tokens_per_second": 12345.6})
    return text.getvalue()


def test_it_shows_steps_loss_and_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = drawn(monkeypatch, terminal=True, shown=True)
    assert "3/10" in text
    assert "loss 1.235, 12,346 tokens/s" in text
    assert "left" in text


@pytest.mark.parametrize(("terminal", "shown"), [(True, False), (False, True)])
def test_it_is_silent_elsewhere(monkeypatch: pytest.MonkeyPatch, terminal: bool, shown: bool) -> None:
    assert drawn(monkeypatch, terminal=terminal, shown=shown) == ""
