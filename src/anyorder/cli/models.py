"""`anyorder models`: every family that can be loaded, what it can do, and the tests that prove it."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.table import Table

from anyorder.cli.family_view import attention, caches, facts_of_family, supported, with_default
from anyorder.cli.flags import Flag, takes
from anyorder.cli.terminal import out_console
from anyorder.errors import ParameterError
from anyorder.params import did_you_mean

NAME = "models"
HELP = """List the model families: their facts, what is supported, published checkpoints, and the tests that prove it.

With the NAME of a family, all about that one. `anyorder inspect` tells of one checkpoint.
"""
EXAMPLES = """[bold]Examples[/]

anyorder models

anyorder models sdar

anyorder models --json
"""
MODELS_FLAGS = (Flag(name="json", type=bool, panel="Output", help="Print the facts as JSON."),)
WIDTH = 100


@takes(show=MODELS_FLAGS)
def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A family.", show_default="all, in brief")] = None,
    *,
    show: dict[str, Any],
) -> None:
    """From the data of the families alone."""
    found = [facts_of(name)] if name is not None else every()
    if "json" in show:
        sys.stdout.write(json.dumps(found if name is None else found[0], indent=2) + "\n")
        return
    console = out_console()
    console.print(brief(found) if name is None else whole(found[0]), width=min(WIDTH, console.width))
    if name is None:
        console.print("anyorder models NAME tells the rest of a family, anyorder inspect MODEL of a checkpoint.")


def every() -> list[dict[str, Any]]:
    """The facts of all families."""
    from anyorder.models.families import FAMILIES

    return [facts_of_family(spec) for spec in FAMILIES.values()]


def facts_of(name: str) -> dict[str, Any]:
    """The facts of one.

    Raises:
        ParameterError: there is no such family.
    """
    from anyorder.models.families import FAMILIES

    if name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise ParameterError(f"unknown family {name!r}{did_you_mean(name, list(FAMILIES))}; known: {known}")
    return facts_of_family(FAMILIES[name])


def brief(found: list[dict[str, Any]]) -> Table:
    """A few lines per family, at most `WIDTH` columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0))
    table.add_column("family", style="bold", no_wrap=True)
    for head in ("what it is", "what works, and its first proof"):
        table.add_column(head, overflow="fold")
    for facts in found:
        mask = f"mask {facts['mask']}, {_block(facts)}"
        way = f"{with_default(facts['modes'], facts['default_mode'])}; {facts['default_policy']}"
        table.add_row(
            facts["family"],
            "\n".join((", ".join(facts["architectures"]), attention(facts), mask, way)),
            "\n".join((f"caches {caches(facts)}", ", ".join(supported(facts)), facts["proof"][0])),
        )
    return table


def whole(facts: dict[str, Any]) -> Table:
    """Everything about one family."""
    lines = {
        "family": f"{facts['family']}: {facts['title']}",
        "checkpoints": "\n".join(facts["checkpoints"]),
        "architectures": ", ".join(facts["architectures"]),
        "network": facts["network"],
        "attention": attention(facts),
        "mask": facts["mask"],
        "block": _block(facts),
        "modes": with_default(facts["modes"], facts["default_mode"]),
        "policy": f"{facts['default_policy']} (default)",
        "caches": caches(facts),
        "infill": "yes" if facts["infill"] else "not trained for it",
        "drafts": ", ".join(facts["drafts"]) or "none: it has no causal mode",
        "edits": "some of its checkpoints" if facts["edits"] else "not trained for it",
        "adapter": "LoRA" if facts["adapter"] else f"none for a {facts['network']}",
        "training": "yes" if facts["training"] else "no",
        "quantised": ", ".join(facts["quantised"]) or "no",
        "proven by": "\n".join(facts["proof"]),
        "source": facts["source"],
    }
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in lines.items():
        table.add_row(name, value)
    return table


def _block(facts: dict[str, Any]) -> str:
    return f"blocks of {facts['block_length']}" if facts["block_length"] else "blocks of any length"
