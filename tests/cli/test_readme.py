"""What the README tells people to type is accepted as written; its Python is run by tests/test_docs.py."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

from anyorder.models.families import FAMILIES
from anyorder.policies.catalog import POLICIES
from anyorder.reference import CaseResult

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = re.findall(r"^anyorder (?!sweep)(.*)$", README, flags=re.MULTILINE)
"""Sweeps need a model that can do their task; docs/sweep.md runs them."""
# What the scripted model, an autoregressive one, cannot do and a diffusion model can.
ONLY_DIFFUSION = ("--cache", "dual")


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_accepted(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("anyorder.reference.run", lambda _: [CaseResult("llada", "logits", "a", True, "")])
    monkeypatch.setattr("anyorder.cli.serve.run", lambda *_: None)  # it would serve until a signal comes
    (tmp_path / "tests" / "reference").mkdir(parents=True)
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "Hi"}\n')
    args = [arg for arg in shlex.split(line) if arg not in ONLY_DIFFUSION]
    result = cli(*args)
    if args[0] in ("inspect", "plan"):  # the tests have no hub
        assert "is not in the local hub cache" in result.err
    else:
        assert result.code == 0, result.err


def test_the_table_of_families_is_that_of_the_registry() -> None:
    for spec in FAMILIES.values():
        row = next(line for line in README.splitlines() if line.startswith("|") and f"`{spec.name}`" in line)
        _, _, _, modes, caches, infill, _ = (cell.strip() for cell in row.split("|"))
        assert sorted(modes.split(", ")) == sorted(spec.modes)
        assert caches.replace("*", "").split(", ") == list(spec.caches)
        assert infill == ("yes" if spec.infill else "no")
    assert all(f"`{name}`" in README for name in POLICIES)


def test_the_scripts_can_be_run() -> None:
    scripts = re.findall(r"^scripts/\w+", README, flags=re.MULTILINE)
    assert len(scripts) == 2
    assert all((ROOT / script).stat().st_mode & 0o111 for script in scripts)
