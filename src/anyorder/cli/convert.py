"""`anyorder convert`: an autoregressive model becomes a diffusion model, and a page says what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anyorder.cli.flags import LOAD_FLAGS, Flag, takes
from anyorder.cli.measure import REPORT_FLAGS, measure
from anyorder.errors import ParameterError

NAME = "convert"
HELP = """Measure a converted model and write what was found as one HTML page.

MODEL is a model, an adapter, or the folder of a training run. The page shows:
masked cross-entropy by mask ratio and by depth in the block; perplexity of the
causal mode before and after; tokens per forward where drafts are verified, so
that the text stays the same; quality by threshold where nothing is verified;
and the texts to held-out prompts side by side.

Stop at any time; the same command goes on where it stopped.
"""
EXAMPLES = """[bold]Examples[/]

anyorder convert runs/smollm2 --report

anyorder convert runs/smollm2 --report --limit 5 --thresholds 0.7,0.9

anyorder convert JetLM/SDAR-1.7B-Chat --base Qwen/Qwen3-1.7B --report --out sdar
"""
CONVERT_FLAGS = (
    Flag(name="report", type=bool, panel="Convert", help="Only measure: nothing is trained."),
    Flag(name="out", type=Path, metavar="DIR", panel="Convert", shown_default="the run's folder, else NAME-report",
         help="Folder of report.html and report.json."),
)  # fmt: skip


@takes(how=CONVERT_FLAGS, wanted=REPORT_FLAGS, load=tuple(flag for flag in LOAD_FLAGS if flag.name != "model"))
def command(
    model: Annotated[
        str | None, typer.Argument(help="Run folder, model folder or hub id.", show_default="the embedded model")
    ] = None,
    *,
    how: dict[str, Any],
    wanted: dict[str, Any],
    load: dict[str, Any],
) -> None:
    """Measures."""
    if "report" not in how:
        raise ParameterError("give --report to measure MODEL")
    measure(model, load, how.get("out") or _report_folder(model), **wanted)


def _report_folder(model: str | None) -> Path:
    """A run keeps its report; nothing is written into the folders of other models."""
    folder = Path(model or "smollm2")
    return folder if (folder / "log.jsonl").is_file() else Path(f"{folder.resolve().name}-report")
