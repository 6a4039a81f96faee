"""`anyorder reference`: the parity suite on a folder of reference vectors, as a table."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from anyorder.cli.decoding import waiting
from anyorder.cli.flags import Flag, takes
from anyorder.cli.terminal import err_console, out_console, safe
from anyorder.errors import DataError

if TYPE_CHECKING:
    from anyorder.reference import CaseResult

NAME = "reference"
HELP = """Compare this engine with published reference vectors: logits, and the canvas at every pass of every decode.

DIR is a family's folder (config.json, model.safetensors, logits.safetensors, decode.json) or a folder of such folders.
The exit code is 1 if any case fails.
"""
EXAMPLES = """[bold]Examples[/]

anyorder reference tests/reference

anyorder reference tests/reference/llada --failed
"""
REFERENCE_FLAGS = (
    Flag(name="failed", type=bool, panel="Output", help="Show only the cases that fail."),
    Flag(name="json", type=bool, panel="Output", help="Print every result as JSON."),
)


@takes(show=REFERENCE_FLAGS)
def command(
    dir: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of reference vectors.", show_default=False)],
    *,
    show: dict[str, Any],
) -> None:
    """Runs every case, whatever fails."""
    from anyorder import reference

    if not dir.is_dir():
        raise DataError(f"{dir} is {'no folder' if dir.exists() else 'not there'}; give a folder of reference vectors")
    with waiting("comparing"):
        results = reference.run(dir)
    failed = sum(not result.passed for result in results)
    if "json" in show:
        sys.stdout.write(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    else:
        out_console().print(as_table([result for result in results if "failed" not in show or not result.passed]))
    err_console().print(f"{len(results) - failed} passed, {failed} failed")
    if failed:
        raise typer.Exit(1)


def as_table(results: list[CaseResult]) -> Table:
    """One line per case."""
    table = Table(box=None, pad_edge=False)
    for name in ("family", "kind", "case", "result", "detail"):
        table.add_column(name, no_wrap=name != "detail", overflow="fold")
    for result in results:
        mark = Text("pass", "green") if result.passed else Text("FAIL", "bold red")
        detail = "; ".join(filter(None, (result.detail, result.quirk and f"quirk: {result.quirk}")))
        table.add_row(result.family, result.kind, result.case, mark, safe(detail))
    return table
