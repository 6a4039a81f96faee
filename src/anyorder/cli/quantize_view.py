"""`anyorder inspect --quantize`: load a model exactly and in each scheme, and show what fewer bits cost and bring."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table

from anyorder.cli.decoding import load_model, waiting
from anyorder.cli.terminal import err_console, out_console


def measured(load: dict[str, Any]) -> list[dict[str, Any]]:
    """One record per scheme, the exact model first; models are loaded one after the other.

    Args:
        load: arguments of `anyorder.load`, without `quantize`.
    """
    from anyorder.models.quantised import SCHEMES
    from anyorder.precision import compare, read

    steps = len(SCHEMES) + 1
    model = load_model(load, note=f", 1 of {steps}")
    with waiting(f"reading a text as published, 1 of {steps}"):
        exact = read(model)
    del model  # one at a time: two large ones would not fit
    found = [asdict(compare(exact, exact, "as published"))]
    for step, name in enumerate(SCHEMES, 2):
        model = load_model({**load, "quantize": name}, note=f" in {name}, {step} of {steps}")
        with waiting(f"reading a text in {name}, {step} of {steps}"):
            found.append(asdict(compare(exact, read(model, name), name)))
        del model
    return found


def show(records: list[dict[str, Any]]) -> None:
    """The records as a table."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("weights")
    for head in ("memory", "error", "largest", "KL, nats", "same token", "1 row", "a block"):
        table.add_column(head, justify="right")
    for record in records:
        table.add_row(
            record["scheme"],
            _megabytes(record["weight_bytes"]),
            f"{record['mean_error']:.3f}",
            f"{record['max_error']:.2f}",
            f"{record['divergence']:.4f}",
            f"{record['agreement']:.0%}",
            f"{record['row_s'] * 1e3:.1f} ms",
            f"{record['block_s'] * 1e3:.1f} ms",
        )
    out_console().print(table)
    err_console().print(
        "error: of a logit, over a text of some hundred tokens; passes behind 128 stored columns", style="dim"
    )


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.{0 if num_bytes >= 1e7 else 2}f} MB"
