"""A way to call the command line as the shell does, on a scripted model."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.cli.scripted import scripted_model

import anyorder
from anyorder.api import load
from anyorder.cli.app import run
from anyorder.models.loaded import LoadedModel


@dataclass
class Result:
    code: int
    out: str
    err: str


@dataclass
class Loads:
    """What `anyorder.load` was asked for."""

    model: LoadedModel = field(default_factory=scripted_model)
    calls: list[tuple[Any, dict[str, Any]]] = field(default_factory=list[tuple[Any, dict[str, Any]]])

    def __call__(self, source: Any = None, **kwargs: Any) -> LoadedModel:
        self.calls.append((source, kwargs))
        return self.model


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Loads:
    """Every load gives the scripted model."""
    loads = Loads()
    monkeypatch.setattr(anyorder, "load", loads)
    return loads


@pytest.fixture
def real_load(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads are real, in spite of `cli`."""
    monkeypatch.setattr(anyorder, "load", load)


Cli = Callable[..., Result]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], loads: Loads) -> Cli:
    """Call the command line; the result has exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*args: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run(args)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call
