"""`anyorder models`: the catalog in the terminal and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.conftest import Cli

from anyorder.cli import models
from anyorder.models.catalog import CATALOG
from anyorder.models.families import FAMILIES

KNOWN = {name: spec for name, spec in FAMILIES.items() if name in CATALOG}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an entry is missing for is told by the catalog's own tests."""
    monkeypatch.setattr("anyorder.models.families.FAMILIES", KNOWN)


def lines(result: str) -> list[str]:
    return [line.strip() for line in result.splitlines()]


@pytest.mark.parametrize("width", [66, 80, 140])
def test_every_family_is_listed(cli: Cli, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the terminal and 100 columns; the names of tests are whole at any width, to be copied."""
    monkeypatch.setenv("COLUMNS", str(width))
    result = cli("models")
    assert result.code == 0
    named = {test for entry in CATALOG.values() for test in entry.proof}
    narrow = [line for line in result.out.splitlines()[:-1] if line.strip() not in named]
    assert max(map(len, narrow)) <= min(width, models.WIDTH)
    assert [line.split()[0] for line in result.out.splitlines()[:-1] if line[:1].strip()] == list(KNOWN)
    assert named <= set(lines(result.out))
    whole = " ".join(lines(result.out))
    for part in (
        "SDARForCausalLM",
        "inexact: prefix, dual",
        "logits shifted by one",
        "drafts lookup ngram",
        "no infill",
    ):
        assert part in whole


@pytest.mark.parametrize("width", [50, 120])
@pytest.mark.parametrize("name", list(KNOWN))
def test_one_family_in_full(cli: Cli, name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown, facts = lines(cli("models", name).out), models.facts_of(name)
    assert set(facts["proof"]) <= set(shown)
    squeezed = " ".join(shown)
    for part in (*facts["checkpoints"], *facts["architectures"], *facts["drafts"], facts["source"]):
        assert part in squeezed


def test_json_has_everything(cli: Cli) -> None:
    found: list[dict[str, Any]] = json.loads(cli("models", "--json").out)
    assert [facts["family"] for facts in found] == list(KNOWN)
    assert json.loads(cli("models", "bd3lm", "--json").out) == next(f for f in found if f["family"] == "bd3lm")
    assert all(facts["proof"] and facts["checkpoints"] for facts in found)


def test_an_unknown_family_is_one_line(cli: Cli) -> None:
    result = cli("models", "sdra")
    assert result.code == 2
    assert "unknown family 'sdra'; did you mean 'sdar'?" in result.err
    assert result.err.lower().count("known: ") == 1


def test_a_family_without_an_entry_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyorder.models.catalog.CATALOG", {})
    with pytest.raises(KeyError, match="llama"):
        models.every()
