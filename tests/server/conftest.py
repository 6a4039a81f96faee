"""Servers that several tests talk to; none of them changes anything in one."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from tests.cli.scripted import scripted_model
from tests.engine.talk import talking
from tests.server.live import Live, live

from anyorder.models.loaded import LoadedModel


@pytest.fixture(scope="session")
def number_model() -> LoadedModel:
    """Writes numbers in any order, block by block."""
    return talking("sdar")


@pytest.fixture(scope="session")
def numbers(number_model: LoadedModel) -> Generator[Live]:
    """A server of `number_model`."""
    with live(number_model) as server:
        yield server


@pytest.fixture(scope="session")
def letters() -> Generator[Live]:
    """A server whose answers are known, letter by letter, a token per byte."""
    with live(scripted_model("Héllo wörld 🌍! ")) as server:
        yield server
