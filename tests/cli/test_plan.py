"""`anyorder plan`: machines by name, by figures and by file; what is printed and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

BOX = ("--bandwidth", "1e11", "--matrix-rate", "1e13")


def test_a_plan_from_a_data_sheet(cli: Cli) -> None:
    result = cli("plan", "--machine", "h100", "--price", "2.5", "--load", "1e6")
    assert result.code == 0
    assert "SmolLM2-135M-Instruct in bfloat16 on NVIDIA H100 SXM 80 GB" in result.out
    assert "from a data sheet or as given, not measured" in result.out
    assert "a million" in result.out
    assert "machines" in result.out


def test_a_plan_from_figures_as_json(cli: Cli, tmp_path: Path) -> None:
    flags = ("--block-length", "8", "--batch", "1,2", "--tpf", "2", "--context", "256", "--memory", "1e9")
    saved = tmp_path / "box.json"
    found = json.loads(cli("plan", *BOX, *flags, "--json", "--save-machine", str(saved)).out)
    assert [(point["batch"], point["rows"]) for point in found["points"]] == [(1, 8), (2, 8)]
    assert found["machine"]["memory"] == 10**9
    again = json.loads(cli("plan", "--machine", str(saved), *flags, "--json").out)
    assert again["verdicts"] == found["verdicts"]


def test_a_plan_is_drawn(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "plan.png"
    assert cli("plan", *BOX, "--plot", str(target)).code == 0
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--machine", "abacus"), "--machine must be this, a file, or one of a100"),
        (("--machine", "h100", "--dtype", "float32"), "--dtype float32 needs --matrix-rate"),
        (("--dtype", "int3"), "--dtype must be one of float64, float32, bfloat16, float16, int8, int4, got 'int3'"),
        (("--dtype", "int8"), "--dtype int8 needs --machine NAME"),
        (("--context", "0", *BOX), "`context` must be above 0"),
        ((*BOX, "--memory", "1e6"), "take fewer bits, a shorter context"),
        (("--batch", "two", *BOX), "'two' is no list of numbers"),
    ],
)
def test_what_is_refused(cli: Cli, flags: tuple[str, ...], message: str) -> None:
    result = cli("plan", *flags)
    assert result.code == 2
    assert message in result.err
