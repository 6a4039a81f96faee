"""`anyorder train`: a recipe, carried out in a folder that can be left and come back to."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from anyorder.cli.decoding import waiting
from anyorder.cli.flags import Flag, takes
from anyorder.cli.terminal import err_console, one_line, out_console, safe, write_out
from anyorder.errors import ParameterError

if TYPE_CHECKING:
    from anyorder.training.data.report import SourceReport
    from anyorder.training.distributed import Team
    from anyorder.training.recipe.plan import Plan
    from anyorder.training.recipe.spec import Recipe

NAME = "train"
HELP = """Train a model as a recipe says: convert an autoregressive model to diffusion, or go on with a diffusion model.

RECIPE is a TOML file, or one that comes with anyorder: llada, bd3lm, fast-dllm-v2, sdar, diffusiongemma, draft-lora,
smollm2-135m (the default model's adapter), tasks (a small any-order model from nothing).
--print shows it, with comments on every choice; --dry-run says what would be trained and the memory it needs.

The folder of the run holds the recipe, what the data was (data.json), the losses (log.jsonl, loss.png), checkpoints,
and in the end the model with a card. Stop at any time: the same command goes on where it stopped, as if it never had.
Several GPUs: torchrun --nproc-per-node 8 -m anyorder train RECIPE.
"""
EXAMPLES = """[bold]Examples[/]

anyorder train fast-dllm-v2 --print > mine.toml

anyorder train mine.toml --dry-run

anyorder train mine.toml --out runs/mine --set optimisation.lr=5e-5 --set data.0.path=chats.jsonl

anyorder generate "Why is the sky blue?" --model runs/mine
"""
TRAIN_FLAGS = (
    Flag(name="out", type=Path, metavar="DIR", panel="Run", shown_default="runs/NAME of the recipe",
         help="Folder of the run."),
    Flag(name="set", type=list[str], metavar="KEY=VALUE", panel="Run",
         help="Change a value of the recipe: section.key=value; parts of a list are numbered, data.0.path=my.jsonl."),
    Flag(name="fresh", type=bool, panel="Run", help="Forget the run that is in the folder and begin anew."),
    Flag(name="dry_run", type=bool, panel="Run", help="Read model and data, say what would be trained, and leave."),
    Flag(name="print", type=bool, panel="Run", help="Print the recipe and leave."),
    Flag(name="device", type=str, metavar="NAME", panel="Run", shown_default="auto",
         help="cpu, cuda, cuda:1, mps; auto takes an accelerator if there is one."),
    Flag(name="offline", type=bool, panel="Run", help="Use only hub files that are on this machine."),
)  # fmt: skip


@takes(wanted=TRAIN_FLAGS)
def command(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A TOML file, or the name of a shipped recipe.")],
    *,
    wanted: dict[str, Any],
) -> None:
    """The recipe is checked before anything is read."""
    from anyorder.training.recipe.read import recipe_text

    text = recipe_text(recipe)
    if wanted.pop("print", False):
        if wanted:
            raise ParameterError("--print only shows the recipe as it is; drop the other flags")
        write_out(text.rstrip("\n"))
        return
    run(recipe, text, changes=wanted.pop("set", ()), **wanted)


def run(
    name: str,
    text: str,
    *,
    out: Path | None = None,
    changes: Sequence[str] = (),
    fresh: bool = False,
    dry_run: bool = False,
    device: str = "auto",
    offline: bool = False,
) -> None:
    """Plan, show, train, publish."""
    from anyorder.training.distributed import team
    from anyorder.training.recipe.read import check, parse
    from anyorder.training.recipe.toml import dumped

    table = parse(text, name, changes)
    recipe = check(table, name)
    folder = out or Path("runs") / Path(name).stem
    with team(device) as here, _plain_warnings():
        plan = _planned(recipe, offline=offline, shows=here.leads)
        if here.leads:
            show(plan)
        if not dry_run:
            _train(plan, folder, dumped(table) if changes else text, here, fresh=fresh)


def _planned(recipe: Recipe, *, offline: bool, shows: bool) -> Plan:
    from anyorder.training.recipe.plan import look, plan

    with waiting("reading the model's files") if shows else nullcontext():
        found = look(recipe, offline=offline)
    with _Reading(shown=shows) as reading:
        return plan(recipe, found, watch=reading.show)


class _Reading:
    """A bar of the bytes of the data that were read; a source that has no size is counted in records."""

    def __init__(self, *, shown: bool) -> None:
        columns = (
            TextColumn("reading {task.description}"),
            BarColumn(),
            TextColumn("{task.fields[tokens]} tokens"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        console = err_console()
        self.progress = Progress(*columns, console=console, disable=not (shown and console.is_terminal))
        self.tasks: dict[int, TaskID] = {}

    def show(self, report: SourceReport) -> None:
        """How far a source is; called after every document."""
        task = self.tasks.get(id(report))
        if task is None:
            name = one_line(Path(report.path).name)
            task = self.tasks[id(report)] = self.progress.add_task(name, total=report.total_bytes or None, tokens="0")
        self.progress.update(task, completed=report.read_bytes, tokens=f"{report.tokens:,}")

    def __enter__(self) -> _Reading:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()


def _train(plan: Plan, folder: Path, text: str, here: Team, *, fresh: bool) -> None:
    from anyorder.training.recipe.folder import begin
    from anyorder.training.recipe.run import finish, read_back, trainer_of

    console = err_console()
    if here.leads:
        begin(folder, text, plan.recipe, plan.data.manifest(), fresh=fresh)
    here.agree(0)  # the others wait for the folder
    with waiting("reading the weights") if here.leads else nullcontext():
        trainer = trainer_of(plan, folder, here, progress=True)
    outcome = trainer.run()
    if outcome.signal is not None:
        if here.leads:
            left = f"stopped at step {outcome.step:,} of {plan.steps:,}; the same command goes on from there"
            console.print(left, soft_wrap=True)
        raise KeyboardInterrupt
    notes = finish(plan, trainer, outcome)
    del trainer  # its memory is needed to read the result back
    if here.leads:
        with waiting("reading the result back"):
            wrong = read_back(folder, here.device)
        for note in (*notes, *([wrong] if wrong else [])):
            console.print(note, soft_wrap=True)
        speed = f", {outcome.tokens_per_second:,.0f} tokens/s" if outcome.tokens_per_second else ""
        console.print(f"{outcome.step:,} steps, {outcome.tokens:,} tokens{speed}", style="dim", soft_wrap=True)
        write_out(f"{folder} holds the model: anyorder generate --model {folder}")


def show(plan: Plan) -> None:
    """What will be trained, as a table that fits into 80 columns."""
    from anyorder.training.recipe.describe import rows

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows(plan):
        table.add_row(name, safe(value))
    out_console().print(table)


@contextmanager
def _plain_warnings() -> Generator[None]:
    """Warnings as one line on stderr, without the line of code that they come from."""

    def line(message: Warning | str, *_: Any, **__: Any) -> None:
        err_console().print(f"warning: {one_line(str(message))}", soft_wrap=True)

    with warnings.catch_warnings():
        warnings.showwarning = line
        warnings.simplefilter("always", UserWarning)
        yield
