"""`anyorder convert`: an autoregressive model becomes a diffusion model, and a page says what came of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli import selftext, train
from anyorder.cli.flags import LOAD_FLAGS, Flag, takes
from anyorder.cli.measure import REPORT_FLAGS, measure, questions
from anyorder.errors import ModelError, ParameterError

if TYPE_CHECKING:
    from anyorder.training.recipe.spec import Recipe

NAME = "convert"
HELP = """Convert an autoregressive model to diffusion, and measure what came of it.

Three steps: the model writes its own training text (anyorder selftext), a
recipe trains it (anyorder train), and a report compares it with the model that
it was. --report takes the last step only, for any converted model or run.

The report is one HTML page: perplexity of the causal mode before and after;
tokens per forward where drafts are verified, so that the text stays the same;
quality by threshold where nothing is verified; masked cross-entropy by mask
ratio and by depth in the block; and the texts to held-out prompts side by side.

Stop at any time; the same command goes on where it stopped.
"""
EXAMPLES = """[bold]Examples[/]

anyorder convert

anyorder convert ./Qwen3-0.6B --recipe fast-dllm-v2 --tokens 2000000

anyorder convert ./Qwen3-0.6B --recipe mine.toml --set data.0.path=chats.jsonl

anyorder convert runs/smollm2-sdar --report --limit 5

anyorder convert JetLM/SDAR-1.7B-Chat --base Qwen/Qwen3-1.7B --report
"""
RECIPE = "smollm2-135m"
SELFTEXT = "own.jsonl"
"""A recipe whose data has this path trains on text of the model itself; the shipped ones do."""
CONVERT_FLAGS = (
    Flag(name="recipe", type=str, metavar="NAME", panel="Convert", shown_default=RECIPE,
         help="A TOML file, or the name of a shipped recipe: `anyorder train --help` lists them."),
    Flag(name="set", type=list[str], metavar="KEY=VALUE", panel="Convert",
         help="Change a value of the recipe: section.key=value. Data of your own: data.0.path=my.jsonl."),
    Flag(name="tokens", type=int, metavar="N", panel="Convert", shown_default=f"{selftext.TOKENS:,}",
         help="Tokens of its own answers that the model writes as training text."),
    Flag(name="report", type=bool, panel="Convert", help="Only measure MODEL: nothing is trained."),
    Flag(name="out", type=Path, metavar="DIR", panel="Convert", shown_default="runs/MODEL-RECIPE",
         help="Folder of the run and its report; of a report alone: the run's, else MODEL-report."),
)  # fmt: skip
TRAINING = ("recipe", "set", "tokens")
RECIPES_OWN = ("shift", "verify", "mask_token_id")
"""Load flags that a recipe says otherwise, or a trained model says itself."""


@takes(how=CONVERT_FLAGS, wanted=REPORT_FLAGS, load=tuple(flag for flag in LOAD_FLAGS if flag.name != "model"))
def command(
    model: Annotated[
        str | None, typer.Argument(help="Folder, GGUF file or hub id.", show_default="the embedded model")
    ] = None,
    *,
    how: dict[str, Any],
    wanted: dict[str, Any],
    load: dict[str, Any],
) -> None:
    """Refuses first what has no meaning in this half."""
    if how.pop("report", False):
        _refuse([name for name in TRAINING if name in how], "nothing is trained with --report")
        return measure(model, load, how.get("out") or _report_folder(model), **wanted)
    _refuse([name for name in RECIPES_OWN if name in load], "a recipe says it, or it goes with --report")
    convert(model, load, wanted, changes=how.pop("set", ()), **how)


def _refuse(names: list[str], reason: str) -> None:
    if names:
        flags = [f"--{name.replace('_', '-')}" for name in names]
        raise ParameterError(f"{', '.join(flags)}: {reason}; drop it")


def convert(
    model: str | None,
    load: dict[str, Any],
    wanted: dict[str, Any],
    *,
    recipe: str = RECIPE,
    changes: Sequence[str] = (),
    tokens: int = selftext.TOKENS,
    out: Path | None = None,
) -> None:
    """Write the text that the recipe asks for, train, measure; each step skips what is there.

    Args:
        model: None: the one that the recipe names.
        load, wanted: load flags and report flags that the user gave.
        changes: of the recipe, `section.key=value`.
    """
    from anyorder.training.recipe.read import check, parse, recipe_text

    questions(wanted.get("prompts"), wanted.get("limit"))  # or a typing error is told after the training
    text = recipe_text(recipe)
    changes = [*_of_model(model, load), *changes]
    checked = check(parse(text, recipe, changes), recipe)
    source = checked.model.source
    folder = out or Path("runs") / f"{Path(source).resolve().name}-{Path(recipe).stem}"
    own = folder.with_name(f"{folder.name}.own.jsonl")
    _check_model(checked, offline=load.get("offline", False))
    asks = [f"data.{index}.path" for index, data in enumerate(checked.data) if str(data.path) == SELFTEXT]
    if asks:
        folder.parent.mkdir(parents=True, exist_ok=True)
        selftext.run(own, {**load, "model": source}, tokens=tokens)
    changes += [_change(key, str(own)) for key in asks]
    place = {name: load[name] for name in ("device", "offline") if name in load}
    train.run(recipe, text, out=folder, changes=changes, fresh=wanted.get("fresh", False), **place)
    number = {"dtype": load["dtype"]} if "dtype" in load else {}
    measure(str(folder), {**place, **number}, folder, **wanted)


def _check_model(recipe: Recipe, *, offline: bool) -> None:
    """What the recipe or the report would refuse is told before hours of writing and training."""
    from anyorder.training.recipe.mask import resolve
    from anyorder.training.recipe.objectives import masks
    from anyorder.training.recipe.plan import look

    found = look(recipe, offline=offline)
    if "causal" not in found.spec.modes:
        raise ModelError(
            f"{found.source} is no autoregressive model ({found.spec.title}); go on with it by `anyorder train`"
        )
    if masks(recipe.objective):
        resolve(recipe.model.mask_token, found)


def _of_model(model: str | None, load: dict[str, Any]) -> list[str]:
    """What the command line says of the model, as changes of a recipe."""
    said = {"model.source": model, "model.revision": load.get("revision")}
    return [_change(key, value) for key, value in said.items() if value is not None]


def _change(key: str, value: str) -> str:
    return f"{key}={json.dumps(value)}"  # a JSON string is one of TOML, too


def _report_folder(model: str | None) -> Path:
    """A run keeps its report; nothing is written into the folders of other models."""
    folder = Path(model or "smollm2")
    return folder if (folder / "log.jsonl").is_file() else Path(f"{folder.resolve().name}-report")
