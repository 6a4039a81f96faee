"""A preset decodes as its parameters do, and flags go before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli
from tests.engine.tiny import tiny

from anyorder.cli import serve
from anyorder.cli.preset import with_preset
from anyorder.errors import DataError, ParameterError
from anyorder.params import DecodeParams
from anyorder.policies.presets import PRESETS
from anyorder.resolve import resolve
from anyorder.sweep.preset import table

PRESET = "# chosen by a sweep\n[decoding]\nmax_new_tokens = 7\ntemperature = 0.5\nseed = 3\n"


def test_a_preset_gives_what_its_flags_give(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "preset.toml"
    file.write_text(PRESET, "utf-8")

    def ids(*flags: str) -> list[int]:
        return json.loads(cli("generate", "a", "--raw", "--json", *flags).out)["ids"]

    asked = ids("--max-new-tokens", "7", "--temperature", "0.5", "--seed", "3")
    assert ids("--preset", str(file)) == asked
    assert len(ids("--preset", str(file), "--max-new-tokens", "2")) == 2


def test_every_kind_of_value_survives_the_file(tmp_path: Path) -> None:
    params = {"policy": "threshold", "threshold": 0.9, "max_new_tokens": 8, "stop_ids": (5, 6), "logits_eos_inf": True,
              "logit_bias": {7: -1.5}, "steps": None}  # fmt: skip
    file = tmp_path / "preset.toml"
    file.write_text("[decoding]\n" + table(params), "utf-8")
    del params["steps"]
    assert with_preset({}, preset=file) == params
    assert with_preset({"threshold": 0.5}, preset=file) == {**params, "threshold": 0.5}


@pytest.mark.parametrize("name", list(PRESETS))
def test_published_settings_go_by_their_names(name: str) -> None:
    """They are parameters that LLaDA2 takes, and flags go first."""
    params = with_preset({"threshold": 0.25}, preset=Path(name))
    assert params == {**PRESETS[name].params, "threshold": 0.25}
    resolved = resolve(DecodeParams.of(**with_preset({}, preset=Path(name))), tiny("llada2_moe"))
    assert {field: getattr(resolved, field) for field in PRESETS[name].params} == PRESETS[name].params


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[decoding]\nstepz = 1", "did you mean 'steps'"),
        ("", "is no preset"),
        ("[decoding]\nsteps = 1\n[grid]\nsteps = [1]", "is no preset"),
        ("[server]\nport = 1", "unknown table 'server'"),
        ("=", "is no TOML"),
    ],
)
def test_what_is_no_preset_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "preset.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(ParameterError, match=message):
        with_preset({}, preset=file)


def test_a_missing_preset_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*none\.toml"):
        with_preset({}, preset=tmp_path / "none.toml")


def test_an_unknown_name_is_told_the_known_ones(cli: Cli) -> None:
    with pytest.raises(ParameterError, match=r"unknown preset 'llada2\.1-sped'; did you mean 'llada2\.1-speed'"):
        with_preset({}, preset=Path("llada2.1-sped"))
    assert "[decoding]" in cli("generate", "--help").out


def test_a_server_takes_a_preset_before_its_file_and_behind_its_flags(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[DecodeParams] = []
    monkeypatch.setattr(serve, "run", lambda model, settings, limits, defaults: served.append(defaults))
    (tmp_path / "preset.toml").write_text(PRESET, "utf-8")
    (tmp_path / "serve.toml").write_text("[decoding]\nmax_new_tokens = 9\ntop_k = 5\n", "utf-8")
    files = ("--config", str(tmp_path / "serve.toml"), "--preset", str(tmp_path / "preset.toml"))
    assert cli("serve", *files, "--seed", "4").code == 0
    assert served == [DecodeParams(max_new_tokens=7, temperature=0.5, seed=4, top_k=5)]
