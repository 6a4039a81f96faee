"""`anyorder convert`: from the command line to the page, on random models."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli
from tests.conversion.subjects import base, converted
from tests.models.tiny_models import LLAMA, write_checkpoint
from tests.training.corpus import SIZE, TEXT_END, write_tokenizer

import anyorder
from anyorder.cli.convert import RECIPE, SELFTEXT
from anyorder.conversion import measure
from anyorder.models.families import FAMILIES
from anyorder.models.load.source import locate
from anyorder.models.loaded import LoadedModel
from anyorder.models.spec import FamilySpec
from anyorder.training.recipe.read import parse, recipe_text, shipped

PROMPTS = [{"id": "first", "prompt": "Hi"}, {"messages": [{"role": "user", "content": "2+2?"}]}]
QUICK = ("--max-new-tokens", "8", "--thresholds", "0.9")


class Shelf:
    """`anyorder.load` of a few names."""

    def __init__(self) -> None:
        self.calls: list[tuple[str | None, dict[str, Any]]] = []
        self.models: dict[str | None, LoadedModel] = {"converted": converted(), "plain": base(seed=1)}

    def __call__(self, source: str | None = None, **flags: Any) -> LoadedModel:
        self.calls.append((source, flags))
        return base() if flags.get("adapter") is False else self.models[source]


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Shelf:
    shelf = Shelf()
    monkeypatch.setattr(anyorder, "load", shelf)
    monkeypatch.setattr("anyorder.models.load.source.locate", lambda *_, **__: Path("nowhere"))
    return shelf


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shelf: Shelf) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = "".join(json.dumps(prompt) + "\n" for prompt in PROMPTS)
    (tmp_path / "prompts.jsonl").write_text(lines, "utf-8")
    return tmp_path


def test_a_report_is_one_page_its_figures_and_its_verdict(cli: Cli, desk: Path, shelf: Shelf) -> None:
    result = cli("convert", "converted", "--report", "--prompts", "prompts.jsonl", *QUICK)
    assert result.code == 0, result.err
    assert "Read from left to right nothing was lost:" in result.out
    assert "the page is converted-report/report.html" in result.err
    page = (desk / "converted-report" / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "first</b> Hi" in page
    assert "2</b> 2+2?" in page  # a line without an id goes by its number
    content = json.loads((desk / "converted-report" / "report.json").read_text("utf-8"))
    assert content["settings"]["thresholds"] == [0.9]
    assert content["settings"]["max_new_tokens"] == 8
    assert [(source, flags.get("adapter")) for source, flags in shelf.calls] == [
        ("converted", None),
        ("converted", False),  # what it is compared with
    ]


def test_the_base_has_the_format_and_the_device_of_the_model(cli: Cli, desk: Path, shelf: Shelf) -> None:
    args = ("--base", "plain", "--dtype", "float64", "--prompts", "prompts.jsonl", "--limit", "1", *QUICK)
    assert cli("convert", "converted", "--report", *args).code == 0
    assert shelf.calls[0] == ("converted", {"dtype": "float64"})
    same = {"dtype": converted().dtype, "device": converted().device, "offline": False, "adapter": False}
    assert shelf.calls[1] == ("plain", same)


def test_a_model_that_was_not_converted_is_measured_by_itself(cli: Cli, desk: Path, shelf: Shelf) -> None:
    args = ("--report", "--out", "here/deep", "--prompts", "prompts.jsonl", "--limit", "1", *QUICK)
    assert cli("convert", "plain", *args).code == 0
    assert len(shelf.calls) == 1
    assert (desk / "here" / "deep" / "report.html").is_file()


def test_a_run_keeps_its_report(cli: Cli, desk: Path, shelf: Shelf) -> None:
    run = desk / "run"
    run.mkdir()
    (run / "log.jsonl").write_text('{"step": 1, "loss": 3.5}\n', "utf-8")
    (run / "recipe.toml").write_text("seed = 7\n", "utf-8")
    shelf.models["run"] = converted()
    assert cli("convert", "run", "--report", "--prompts", "prompts.jsonl", "--limit", "1", *QUICK).code == 0
    page = (run / "report.html").read_text("utf-8")
    assert "seed = 7" in page
    assert "How it was trained" in page


def test_an_interrupt_keeps_what_was_measured_and_the_same_command_goes_on(
    cli: Cli, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("convert", "converted", "--report", "--prompts", "prompts.jsonl", *QUICK)
    real, calls = measure.same_logits, iter(range(100))

    def interrupted(*args: Any) -> bool:
        if next(calls) == 1:  # the second prompt's
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(measure, "same_logits", interrupted)
    stopped = cli(*command)
    assert stopped.code == 130
    assert "interrupted: 3 of 10 measurements are in converted-report; the same command goes on from there" in (
        " ".join(stopped.err.split())
    )
    assert "Unfinished: 30 % are measured." in (desk / "converted-report" / "report.html").read_text("utf-8")
    went_on = cli(*command)
    assert went_on.code == 0
    assert "3 of 10 measurements are there already" in went_on.err
    assert "Unfinished" not in (desk / "converted-report" / "report.html").read_text("utf-8")
    assert "10 of 10 measurements are there already" in cli(*command).err


FAULTS: list[tuple[tuple[str, ...], int, str]] = [
    (("--limit", "0"), 2, "--limit must be at least 1, got 0"),
    (("--prompts", "missing.jsonl"), 1, "cannot read missing.jsonl"),
    (("--thresholds", "high"), 2, "'high' is no list of numbers; write them as 0.7,0.9"),
    (("--thresholds", ","), 2, "no number given"),
    (("--thresholds", "0.9,2"), 2, "`threshold` must be in [0, 1]"),
    (("--max-new-tokens", "600"), 2, "the model's context is 512"),
]


@pytest.mark.parametrize(("flags", "code", "says"), FAULTS, ids=[says for *_, says in FAULTS])
def test_wrong_flags_are_one_line(cli: Cli, desk: Path, flags: tuple[str, ...], code: int, says: str) -> None:
    result = cli("convert", "converted", "--report", *flags)
    assert result.code == code
    assert says in result.err
    assert result.err.count("\n") == 1
    assert not (desk / "converted-report").exists()


def test_a_model_without_mask_token_is_refused(cli: Cli, desk: Path, shelf: Shelf) -> None:
    shelf.models["unmasked"] = dataclasses.replace(base(), mask_token_id=None, source="unmasked")
    result = cli("convert", "unmasked", "--report")
    assert result.code == 1
    assert "unmasked has no mask token, so it cannot denoise" in result.err
    assert "mask_token_id" in result.err


DENOISERS = [FAMILIES["dream"], dataclasses.replace(FAMILIES["llama"], blocks_both_ways=True)]


@pytest.mark.parametrize("spec", DENOISERS, ids=["bidirectional", "blocks behind causal text"])
def test_a_denoiser_that_does_not_say_its_base_needs_one(cli: Cli, desk: Path, shelf: Shelf, spec: FamilySpec) -> None:
    """Measured by itself it would praise itself."""
    shelf.models["denoiser"] = dataclasses.replace(base(), spec=spec, source="denoiser")
    result = cli("convert", "denoiser", "--report")
    assert result.code == 2
    assert "denoiser does not say which autoregressive model it was made from; name it with --base" in result.err


def test_a_run_is_compared_with_the_model_that_its_recipe_names(cli: Cli, desk: Path, shelf: Shelf) -> None:
    """Even if it reads from left to right, as a model of uniform noise does."""
    run = desk / "run"
    run.mkdir()
    (run / "log.jsonl").write_text('{"step": 1, "loss": 3.5}\n', "utf-8")
    (run / "recipe.toml").write_text('[model]\nsource = "plain"\n', "utf-8")
    shelf.models["run"] = base(seed=1)
    result = cli("convert", "run", "--report", "--prompts", "prompts.jsonl", "--limit", "1", *QUICK)
    assert [source for source, _ in shelf.calls] == ["run", "plain"]
    assert "The causal mode changed" in result.out  # the shelf's base has other weights


def test_a_report_begun_otherwise_is_refused(cli: Cli, desk: Path) -> None:
    command = ("convert", "converted", "--report", "--prompts", "prompts.jsonl", "--limit", "1", *QUICK)
    assert cli(*command).code == 0
    other = cli(*command, "--thresholds", "0.5")
    assert other.code == 1
    assert "thresholds was [0.9], now [0.5]" in other.err
    assert cli(*command, "--thresholds", "0.5", "--fresh").code == 0


SMALL = {
    "optimisation.batch_rows": 2, "optimisation.micro_rows": 2, "packing.length": 64, "method.rank": 2,
    "objective.block_length": 4, "precision.weights": "float32", "model.mask_token": 5,
}  # fmt: skip
CHANGES = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]


@pytest.fixture
def tiny_model(desk: Path, real_load: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A random chat model on bytes."""
    monkeypatch.setattr("anyorder.models.load.source.locate", locate)
    raw = {**LLAMA, "vocab_size": SIZE, "max_position_embeddings": 400, "eos_token_id": TEXT_END}
    write_tokenizer(desk / "tiny")
    return write_checkpoint(desk / "tiny", raw)


@pytest.fixture
def one_epoch(tiny_model: Path) -> str:
    """The default recipe, with steps in place of epochs."""
    text = recipe_text("draft-lora").replace("epochs = 4", "steps = 2")
    (tiny_model.parent / "quick.toml").write_text(text, "utf-8")
    return "quick.toml"


def test_a_model_is_converted_from_its_own_text_and_measured(cli: Cli, desk: Path, one_epoch: str) -> None:
    how = ("--recipe", one_epoch, *CHANGES, "--tokens", "300")
    command = ("convert", "tiny", *how, "--prompts", "prompts.jsonl", *QUICK)
    result = cli(*command)
    assert result.code == 0, result.err
    folder = desk / "runs" / "tiny-quick"
    own = (desk / "runs" / "tiny-quick.own.jsonl").read_bytes()
    assert sum(len(json.loads(line)["answer_ids"]) for line in own.splitlines()) >= 300
    assert 'source = "tiny"' in (folder / "recipe.toml").read_text("utf-8")
    assert anyorder.load(str(folder)).adapter is not None
    page = (folder / "report.html").read_text("utf-8")
    assert "How it was trained" in page
    assert "Read from left to right nothing was lost:" in result.out
    again = cli(*command)  # nothing is left to do
    assert again.code == 0, again.err
    assert "10 of 10 measurements are there already" in again.err
    assert (desk / "runs" / "tiny-quick.own.jsonl").read_bytes() == own


def test_a_recipe_with_data_of_its_own_has_no_text_written(cli: Cli, desk: Path, one_epoch: str) -> None:
    line = json.dumps({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello " * 9}]})
    (desk / "chats.jsonl").write_text((line + "\n") * 4, "utf-8")
    data = ("--set", "data.0.path=chats.jsonl", "--set", "data.0.kind=chat")
    how = ("--recipe", one_epoch, *CHANGES, *data, "--out", "here")
    result = cli("convert", "tiny", *how, "--prompts", "prompts.jsonl", "--limit", "1", *QUICK)
    assert result.code == 0, result.err
    assert list(desk.glob("*.own.jsonl")) == []
    assert (desk / "here" / "report.html").is_file()


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        (("--report", "--recipe", "x", "--tokens", "5"), 2, "--recipe, --tokens: nothing is trained with --report"),
        (("--mask-token-id", "3"), 2, "--mask-token-id: a recipe says it"),
        (("--recipe", "draft-lore"), 1, "did you mean 'draft-lora'?"),
        (("--set", "seed=-1"), 2, "`seed` must be"),
        (("--limit", "0"), 2, "--limit must be at least 1, got 0"),
    ],
)
def test_a_conversion_is_refused_before_it_begins(
    cli: Cli, desk: Path, shelf: Shelf, flags: tuple[str, ...], code: int, says: str
) -> None:
    result = cli("convert", "plain", *flags)
    assert (result.code, says in result.err) == (code, True), result.err
    assert shelf.calls == []
    assert [path.name for path in desk.rglob("*") if path.is_file()] == ["prompts.jsonl"]


def test_a_model_that_the_recipe_cannot_train_is_refused_before_it_writes(cli: Cli, desk: Path, one_epoch: str) -> None:
    result = cli("convert", "tiny", "--recipe", one_epoch, "--set", "packing.length=64")
    assert result.code == 2
    assert "tiny has no token that could be the mask" in result.err
    assert list(desk.rglob("*.own.jsonl")) == []


@pytest.mark.parametrize("name", ["bd3lm", "diffusiongemma", "draft-lora", "fast-dllm-v2", "llada", "sdar", RECIPE])
def test_the_recipes_for_conversion_ask_for_text_of_the_model_itself(name: str) -> None:
    """Else `convert` would look for a file that only its author has."""
    assert [str(data["path"]) for data in parse(shipped()[name], name)["data"]] == [SELFTEXT]


def test_what_is_no_autoregressive_model_is_not_converted(cli: Cli, desk: Path, real_load: None) -> None:
    source = str(Path(__file__).parents[1] / "reference" / "llada")
    result = cli("convert", source, "--set", "packing.length=32")
    assert result.code == 1
    assert "is no autoregressive model" in result.err
    assert [path.name for path in desk.rglob("*") if path.is_file()] == ["prompts.jsonl"]
