"""The help teaches, knows every parameter, and does not wait for torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import pytest
from tests.cli.conftest import Cli, Loads

import anyorder
from anyorder import params
from anyorder.cli import chat, convert, generate, inspect, models, plan, reference, selftext, serve, sweep, train
from anyorder.cli.flags import DECODE_FLAGS, PANELS, field_docs
from anyorder.params import DecodeParams
from anyorder.training.recipe.read import shipped

COMMANDS = (generate, chat, serve, inspect, models, plan, selftext, train, convert, sweep, reference)


def words(text: str) -> str:
    """A help text without its boxes and line breaks."""
    return " ".join(text.replace("│", " ").split())


def test_every_parameter_has_a_flag_with_its_docstring(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [field.name for field in fields(DecodeParams)]
    assert sorted(flag.name for flag in DECODE_FLAGS) == sorted(names)
    assert sum(map(len, PANELS.values())) == len(names)
    monkeypatch.setenv("COLUMNS", "400")  # wide enough that no help text is broken
    for command in ("generate", "chat"):
        shown = words(cli(command, "--help").out)
        for flag in DECODE_FLAGS:
            assert f"--{flag.name.replace('_', '-')} " in shown
            assert words(flag.help) in shown, flag.name


def test_the_docstring_of_every_field_is_found() -> None:
    with open(params.__file__, encoding="utf-8") as source:
        docs = field_docs(source.read(), "DecodeParams")
    assert docs["top_k"] == "Sample from the k most probable tokens."
    assert set(docs) == {field.name for field in fields(DecodeParams)}


EXPECTED_FIELDS = {
    "mode": "block", "policy": "random", "steps": 3, "threshold": 0.5, "factor": 1.5, "entropy_bound": 0.2,
    "alg_temp": 0.1, "eps": 0.01, "block_length": 8, "sub_block_length": 4, "max_new_tokens": 6, "growth": "block",
    "edit_threshold": 0.4, "edit_passes": 2, "edit_blocks": 1, "first_block_length": 2, "draft": "ngram",
    "draft_length": 5, "top_logprobs": 3, "noise": "cosine", "entropy_threshold": 0.3, "position_penalty": 0.05,
    "window": "sliding", "t_min": 0.3, "t_max": 0.6, "stability_threshold": 2, "confidence_threshold": 0.1,
    "temperature": 0.7, "top_p": 0.9, "top_k": 5, "seed": 11, "cfg_scale": 1.5, "cache": "dual", "measure_drift": True,
    "stop_ids": (1, 2), "logits_eos_inf": True, "confidence_eos_eot_inf": True, "logit_bias": {5: -1.5, 6: 2.0},
    "banned_ids": (7,), "forced": {0: 9},
}  # fmt: skip
AS_FLAG = {"stop_ids": "1,2", "logit_bias": "5=-1.5,6=2", "banned_ids": "7", "forced": "0=9"}


@pytest.mark.parametrize("name", [field.name for field in fields(DecodeParams)])
def test_every_flag_reaches_its_parameter(cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    seen: list[dict[str, object]] = []

    def of(**changes: object) -> DecodeParams:
        seen.append(changes)
        return DecodeParams()

    monkeypatch.setattr(DecodeParams, "of", of)
    monkeypatch.setattr(anyorder, "load", lambda *_, **__: pytest.fail("seen enough"))
    value = EXPECTED_FIELDS[name]
    flag = f"--{name.replace('_', '-')}"
    with pytest.raises(pytest.fail.Exception):
        cli("generate", "a", *([flag] if value is True else [flag, AS_FLAG.get(name, str(value))]))
    assert seen == [{name: value}]


def test_an_empty_list_of_stop_ids_is_not_none(cli: Cli, loads: Loads) -> None:
    loads.model.stop_ids = (ord("B"),)
    whole = cli("generate", "a", "--raw", "--stop-ids", "", "--max-new-tokens", "20").out
    cut = cli("generate", "a", "--raw", "--max-new-tokens", "20").out
    assert "B" in whole
    assert "B" not in cut


@pytest.mark.parametrize("module", COMMANDS, ids=[module.NAME for module in COMMANDS])
def test_every_command_explains_itself_with_examples(cli: Cli, module: object) -> None:
    name: str = module.NAME  # type: ignore[attr-defined]
    result = cli(name, "--help")
    assert result.code == 0
    assert result.out.count(f"anyorder {name}") >= 3  # the usage line and two examples
    assert max(map(len, result.out.splitlines())) <= 80
    assert name in cli("--help").out


def test_version_and_no_arguments(cli: Cli) -> None:
    assert cli("--version").out == f"anyorder {anyorder.__version__}\n"
    nothing = cli()
    assert nothing.code == 2
    assert "Usage: anyorder" in nothing.out
    assert nothing.err == ""


def test_an_unknown_command_is_one_line_with_the_nearest(cli: Cli) -> None:
    result = cli("genrate")
    assert (result.code, result.err) == (2, "error: No such command 'genrate'. Did you mean 'generate'?\n")


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["generate", "--help"],
        ["chat", "--help"],
        ["inspect", "--help"],
        ["models", "--help"],
        ["plan", "--help"],
        ["serve", "--help"],
        ["selftext", "--help"],
        ["train", "--help"],
        ["sweep", "--help"],
    ],
)
def test_help_loads_neither_torch_nor_transformers(args: list[str]) -> None:
    code = (
        "import sys; from anyorder.cli.app import run; "
        f"code = run({args!r}); heavy = {{'torch', 'transformers', 'numpy', 'huggingface_hub'}} & set(sys.modules); "
        "sys.exit(f'imported: {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_help_of_train_names_every_shipped_recipe(cli: Cli) -> None:
    shown = words(cli("train", "--help").out)
    assert [name for name in shipped() if name not in shown] == []
