"""Memory and seconds of a load at published sizes, against what `anyorder inspect` foretells without loading.

    python benchmarks/load_memory.py [--models llada-8b ...] [--dtypes int4 ...] [--layers N] [--files FOLDER]

Checkpoints have the published shapes and the published number of shards, but no contents: the files are sparse, so
that they take no space and read as zeros. A load copies or rounds them like any other, which makes every page of the
result resident. Each case is a process of its own; a case whose result is in the JSON lines of --out is not run
again, and one that would not fit into the memory that is free is said so and left out. `--layers` keeps the shapes and
takes fewer layers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import RESULTS, machine, machine_line, table
from published_shapes import SHAPES, SHARDS, sparse_checkpoint, with_layers

import anyorder

DTYPES = ("bfloat16", "int8", "int8-dynamic", "int4")
SPARE = 1.15
"""Free memory that a case needs, in sizes of its weights."""

LOAD = """
import json, re, resource, sys, time

def status(*keys):
    text = open("/proc/self/status").read()
    return sum(1024 * int(re.search(key + r":\\s+(\\d+) kB", text)[1]) for key in keys)

def high():
    with open("/proc/self/clear_refs", "w") as handle:
        handle.write("5")

import torch, anyorder, anyorder.models.load, anyorder.models.load.build
folder, options = sys.argv[1], json.loads(sys.argv[2])
if "vision_config" in json.load(open(folder + "/config.json")):
    import transformers.models.gemma4.modeling_gemma4
high()
before = resource.getrusage(resource.RUSAGE_SELF)
anonymous, resident, begun = status("RssAnon"), status("VmRSS"), time.perf_counter()
model = anyorder.load(folder, device="cpu", verify=False, **options)
seconds = time.perf_counter() - begun
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "after": status("RssAnon") - anonymous, "peak": status("VmHWM") - resident,
    "file_after": status("RssFile"), "seconds": seconds,
    "user_s": used.ru_utime - before.ru_utime, "system_s": used.ru_stime - before.ru_stime,
}))
"""
"""Peak: pages of the checkpoint that are in memory at the same time count, too; after: only what the process owns."""


def foretold(raw: dict[str, Any], dtype: str) -> dict[str, int]:
    """Bytes of the weights, and those of the embedding table, as `inspect` says them."""
    from anyorder.cli.inspect import facts_of

    facts = facts_of(raw, dtype="bfloat16")
    return {"weights": facts["formats"][dtype], "table": facts["table_bytes"][dtype]}


def load(folder: Path, dtype: str) -> dict[str, Any]:
    """What a process of its own takes."""
    options = {"dtype": "bfloat16"} | ({} if dtype == "bfloat16" else {"quantize": dtype})
    command = [sys.executable, "-c", LOAD, str(folder), json.dumps(options)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"loading {folder} in {dtype} failed:\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


def free_bytes() -> int:
    """Memory that a process may take, Linux only."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def cases(models: Sequence[str], dtypes: Sequence[str], layers: int | None) -> list[dict[str, Any]]:
    """Cases in order, each with its key."""
    found: list[dict[str, Any]] = []
    for model in models:
        raw = SHAPES[model] if layers is None else with_layers(SHAPES[model], layers)
        found += [{"model": model, "dtype": dtype, "layers": layers, "raw": raw} for dtype in dtypes]
    return found


def measure(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The record of a case; nothing is measured where it does not fit."""
    raw, key = case["raw"], {name: case[name] for name in ("model", "dtype", "layers")}
    said = foretold(raw, case["dtype"])
    if SPARE * said["weights"] > free_bytes():
        return {**key, "foretold": said, "fits": False}
    sparse_checkpoint(folder, raw, SHARDS[case["model"]])
    return {**key, "foretold": said, "fits": True, **load(folder, case["dtype"])}


def error(record: dict[str, Any]) -> float:
    """Of what was foretold, beside what the process owns after the load."""
    said = record["foretold"]
    return (said["weights"] - said["table"]) / record["after"] - 1


def row(record: dict[str, Any]) -> list[str]:
    said = record["foretold"]
    name = record["model"] + (f", {record['layers']} layers" if record["layers"] else "")
    start = [name, record["dtype"], f"{said['weights'] / 1e9:.2f}", f"{said['table'] / 1e9:.2f}"]
    if not record["fits"]:
        return [*start, "does not fit here", "", "", "", ""]
    return [
        *start,
        f"{record['after'] / 1e9:.2f}",
        f"{error(record):+.1%}",
        f"{record['peak'] / said['weights']:.2f}",
        f"{record['seconds']:.0f}",
        f"{record['user_s']:.0f}" if "user_s" in record else "",
    ]


HEAD = ("shapes of", "weights in", "foretold, GB", "of it in the file", "process owns, GB", "error", "peak", "seconds",
        "of CPU")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--layers", type=int, help="take so many layers; default: all")
    parser.add_argument("--files", type=Path, help="where the sparse files go; default: a temporary folder")
    parser.add_argument("--out", type=Path, default=RESULTS / "load_memory.jsonl", help="JSON lines, appended to")
    args = parser.parse_args()
    done = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    known = {(record["model"], record["dtype"], record["layers"]): record for record in done}
    wanted = cases(args.models, args.dtypes, args.layers)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    records: list[dict[str, Any]] = []
    for number, case in enumerate(wanted, 1):
        key = (case["model"], case["dtype"], case["layers"])
        print(f"{number} of {len(wanted)}: {key[0]} in {key[1]}", file=sys.stderr, flush=True)
        if key not in known or not known[key]["fits"]:
            with tempfile.TemporaryDirectory(dir=args.files) as folder:
                known[key] = measure(case, Path(folder))
            with args.out.open("a") as handle:
                handle.write(json.dumps(known[key]) + "\n")
        records.append(known[key])
    print(machine_line(machine()) + f", anyorder {anyorder.__version__}\n")
    print(table(HEAD, [row(record) for record in records]))


if __name__ == "__main__":
    main()
