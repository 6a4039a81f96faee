"""`anyorder models`: every family that can be loaded, what it can do, and the tests that prove it."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.text import Text

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
COLUMN = 15
"""Where the facts of one family begin."""


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
    for line in lines(found, min(WIDTH, console.width)) if name is None else whole(found[0], min(WIDTH, console.width)):
        console.print(line, soft_wrap=True)


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
        raise ParameterError(f"unknown family {name!r}{did_you_mean(name, list(FAMILIES))}")
    return facts_of_family(FAMILIES[name])


def lines(found: list[dict[str, Any]], width: int) -> Iterator[Text]:
    """A few lines per family. Only the names of tests may be wider than `width`: they are to be copied."""
    for facts in found:
        yield Text.assemble((facts["family"], "bold"), f"  {facts['title']}")
        for part in brief(facts):
            yield from _wrapped(part, width)
        yield from _proof(facts)
        yield Text()
    yield Text("anyorder models NAME tells the rest of a family, anyorder inspect MODEL of a checkpoint.")


def brief(facts: dict[str, Any]) -> tuple[str, ...]:
    """What it is, and what works."""
    mask = f"{attention(facts)}; mask {facts['mask']}, {_block(facts)}"
    modes = f"modes {with_default(facts['modes'], facts['default_mode'])}; policy {facts['default_policy']}"
    return (
        f"{', '.join(facts['architectures'])}: {mask}",
        f"{modes}; caches {caches(facts)}",
        ", ".join((*(["infill"] if facts["infill"] else []), *supported(facts)))
        + ("" if facts["infill"] else "; no infill"),
    )


def whole(facts: dict[str, Any], width: int) -> Iterator[Text]:
    """Everything about one family."""
    parts = {
        "family": f"{facts['family']}: {facts['title']}",
        "checkpoints": facts["checkpoints"],
        "architectures": ", ".join(facts["architectures"]),
        "network": facts["network"],
        "input": ", ".join(facts["inputs"]),
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
        "source": facts["source"],
    }
    for name, value in parts.items():
        listed = value if isinstance(value, list) else textwrap.wrap(value, width - COLUMN)
        for index, line in enumerate(listed):
            yield Text.assemble((f"{'' if index else name:{COLUMN}}", "bold"), line)
    yield Text("proven by", "bold")
    yield from _proof(facts)


def _wrapped(text: str, width: int) -> list[Text]:
    return [Text(line) for line in textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")]


def _proof(facts: dict[str, Any]) -> list[Text]:
    return [Text(f"  {test}") for test in facts["proof"]]


def _block(facts: dict[str, Any]) -> str:
    return f"blocks of {facts['block_length']}" if facts["block_length"] else "blocks of any length"
