from __future__ import annotations

import sys
from pathlib import Path

import pytest

from anyorder.errors import DataError, MissingExtra
from anyorder.training.log import Log
from anyorder.training.plot import plot_loss


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    log = Log(tmp_path / "log.jsonl", 0)
    for step in range(1, 5):
        log.add({"step": step, "loss": 5 / step, "lr": step / 10})
    return log.path


def test_a_picture_is_drawn(log_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot_loss(log_file, tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_extra_is_named(log_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'anyorder\[plot\]'"):
        plot_loss(log_file, tmp_path / "loss.png")


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(DataError, match="holds no logged step"):
        plot_loss(tmp_path / "log.jsonl", tmp_path / "loss.png")
