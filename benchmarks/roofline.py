"""The roofline of `anyorder plan` against passes that are really run, on this machine and with the default model.

    python benchmarks/roofline.py [--dtypes float32 bfloat16] [--out benchmarks/results]

Measures the machine with matrices of the model's shapes, predicts passes of other batches, blocks and contexts, and
times them.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from common import machine, machine_line, save, table

import anyorder
from anyorder.models.loaded import LoadedModel
from anyorder.plan.probe import measure
from anyorder.plan.roofline import Pass, Roofline
from anyorder.plan.sizes import sizes_of
from anyorder.rates import best_time
from anyorder.runner import Runner
from anyorder.window import Window

PASSES = tuple(
    Pass(batch=batch, rows=rows, context=context, wanted=max(1, rows // 2))
    for batch, rows, context in (
        (1, 1, 128), (1, 4, 128), (1, 8, 256), (1, 16, 256), (1, 32, 256), (1, 32, 1024), (1, 256, 256), (4, 1, 256),
        (16, 1, 256), (4, 32, 256), (16, 8, 256), (16, 32, 256),
    )
)  # fmt: skip


@torch.inference_mode()
def seconds(model: LoadedModel, p: Pass) -> float:
    """Of the pass as the engine runs it."""
    runner = Runner(model.network)
    storages = [runner.storage(p.context) for _ in range(p.batch)]
    window = Window(
        ids=torch.full((p.rows,), 5),
        start=p.context - p.rows,
        visible=p.context,
        rows=torch.arange(int(p.wanted or 1)),
        attention="block",
        block_length=p.rows,
    )
    return best_time(lambda: runner.forward([window] * p.batch, storages), model.device, seconds=1.0)


def compare(dtype: str) -> list[dict[str, Any]]:
    model = anyorder.load("smollm2", dtype=dtype)
    number: torch.dtype = getattr(torch, dtype)
    here = measure(model.config, dtype=number, device=model.device, name="here")
    roofline = Roofline(sizes=sizes_of(model.config, model.spec, number.itemsize), machine=here)
    rows: list[dict[str, Any]] = []
    for p in PASSES:
        measured, predicted = seconds(model, p), roofline.seconds(p)
        rows.append({"dtype": dtype, **asdict(p), "measured_s": measured, "predicted_s": predicted,
                     "error": predicted / measured - 1})  # fmt: skip
        print(f"{dtype} {p.batch} x {p.rows} at {p.context}: {predicted / measured - 1:+.0%}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--out", type=Path, help="folder for roofline.json; default: benchmarks/results")
    args = parser.parse_args()
    facts = machine()
    rows = [row for dtype in args.dtypes for row in compare(dtype)]
    print(machine_line(facts) + "\n")
    head = ("weights", "sequences", "rows of each", "context", "measured, ms", "predicted, ms", "error")
    print(table(head, [
        (row["dtype"], row["batch"], row["rows"], row["context"], f"{row['measured_s'] * 1e3:.1f}",
         f"{row['predicted_s'] * 1e3:.1f}", f"{row['error']:+.0%}")
        for row in rows
    ]))  # fmt: skip
    print(f"\nlargest error: {max(abs(row['error']) for row in rows):.0%}")
    save("roofline", {"machine": facts, "rows": rows}, args.out)


if __name__ == "__main__":
    main()
