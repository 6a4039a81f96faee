"""How long the command line takes to start: `anyorder --help`, and `anyorder generate` to its first token.

    python benchmarks/startup.py
    python benchmarks/startup.py --model FOLDER --repeats 1

Each time is that of a whole process from its start to its end, as a shell sees it; `generate` writes one token, so its
end is a little later than its first committed token. The first round fills the file cache and is not counted. The
breakdown comes from one process that does the same steps one after the other.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from common import Spread, machine, machine_line, save, table

PROMPT = "Why is the sky blue?"
STEPS = """
import json, sys, time
marks = [("python", time.time())]
def mark(name):
    marks.append((name, time.time()))
import anyorder.cli.app
mark("command line")
import torch
mark("import torch")
import anyorder.api
mark("import the rest")
from anyorder.models.load.folder import read_config
from anyorder.models.load.source import locate
from anyorder.models.tokenizer import read_tokenizer
source = sys.argv[1] or None
folder = locate(source, revision=None, offline=True)
tokenizer = read_tokenizer(folder)
mark("tokenizer")
model = anyorder.api.load(source, offline=True)
mark("load (tokenizer again, weights)")
prompt = [1, 2, 3] if tokenizer is None else tokenizer.encode_chat([{"role": "user", "content": sys.argv[2]}])
mark("encode the prompt")
for event in anyorder.api.stream(model, prompt, max_new_tokens=1):
    if type(event).__name__ == "Committed":
        mark("first pass")
print(json.dumps(marks))
"""


def wall(command: list[str]) -> float:
    """Seconds from the start of a process to its end; it must succeed."""
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return seconds


def breakdown(model: str | None) -> dict[str, float]:
    """Step -> seconds, of one process."""
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-c", STEPS, model or "", PROMPT], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"the breakdown failed: {done.stderr.strip()}")
    steps: dict[str, float] = {}
    for name, at in json.loads(done.stdout.splitlines()[-1]):
        steps[name], began = at - began, at
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder of a checkpoint; the default model if left out")
    parser.add_argument("--repeats", type=int, default=5, help="counted rounds")
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    args = parser.parse_args()
    facts = machine()
    script = Path(sys.executable).with_name("anyorder")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "anyorder"]
    choice = ["--model", args.model, "--raw"] if args.model else []
    generate = [*program, "generate", PROMPT, "--max-new-tokens", "1", *choice]
    commands = {"--help": [*program, "--help"], "generate, one token": generate}
    if args.model and not (Path(args.model) / "tokenizer.json").exists():
        del commands["generate, one token"]  # a prompt cannot be given as ids on the command line
    times: dict[str, list[float]] = {name: [] for name in commands}
    steps: list[dict[str, float]] = []
    for repeat in range(args.repeats + 1):
        for name, command in commands.items():
            seconds = wall(command)
            if repeat:
                times[name].append(seconds)
        if repeat:
            steps.append(breakdown(args.model))
    result: dict[str, Any] = {
        "seconds": {name: Spread.of(values) for name, values in times.items()},
        "steps": {name: Spread.of([one[name] for one in steps]) for name in steps[0]},
    }
    print(f"Machine: {machine_line(facts)}; medians of {args.repeats} rounds (least-largest)\n")
    print(table(("command", "seconds"), [(f"`anyorder {n}`", v.text()) for n, v in result["seconds"].items()]))
    print("\nInside `generate`:\n")
    print(table(("step", "seconds"), [(name, value.text()) for name, value in result["steps"].items()]))
    save("startup", {"machine": facts, **result}, args.out)


if __name__ == "__main__":
    main()
