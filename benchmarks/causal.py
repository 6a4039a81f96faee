"""Our causal decode against `transformers` generate and llama.cpp: the default model, greedy, the same prompt.

    python benchmarks/causal.py
    python benchmarks/causal.py --llama-python PATH    # an interpreter that has llama-cpp-python
    python benchmarks/causal.py --model FOLDER --dtypes float32 --tokens 8 --repeats 1

All sides decode in turn, in one run. In float32 the ids must be equal to those of transformers or the script fails; in
bfloat16 two correct programs round differently and may part ways at a near-tie, so the first difference is reported,
and on how many tokens both agree when ours is fed the text of transformers. "lookup" drafts three tokens from the text
so far and verifies them in the same pass (`draft="lookup"`); its text is that of plain decoding. llama.cpp reads the
4-bit GGUF file that the default model's float weights were dequantised from.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common import Spread, machine, machine_line, save, table

import anyorder
from anyorder.models.load.source import locate
from anyorder.runner import Runner
from anyorder.window import Window

PROMPT = "Write a short story about a lighthouse keeper who finds a letter in a bottle."


@dataclass
class Run:
    """One decode; `outside` is our time outside the model's forward, in seconds."""

    seconds: float
    ids: list[int]
    outside: float = 0.0
    passes: int = 0


Decode = Callable[[list[int], int], Run]


def ours(model: Any, draft: str) -> Decode:
    def decode(prompt: list[int], tokens: int) -> Run:
        began = time.perf_counter()
        answer = anyorder.generate(model, prompt, mode="causal", draft=draft, max_new_tokens=tokens, stop_ids=())
        seconds = time.perf_counter() - began
        return Run(seconds, list(answer.ids), seconds - answer.stats.model_s, answer.stats.passes)

    return decode


@torch.inference_mode()
def agreement(model: Any, prompt: list[int], theirs: list[int]) -> float:
    """Share of `theirs` that our model would write, each after their text so far."""
    ids = torch.tensor(prompt + theirs[:-1])
    rows = torch.arange(len(prompt) - 1, len(ids))
    window = Window(ids=ids, start=0, visible=len(ids), rows=rows, attention="causal", stores=False)
    (logits,) = Runner(model.network).forward([window], [None])
    return float((logits.argmax(-1) == torch.tensor(theirs)).float().mean())


def of_transformers(folder: Path, dtype: str) -> Decode:
    """`generate` as its documentation shows it, on the folder that ours was loaded from."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    model.generation_config.eos_token_id = None  # both sides write all tokens

    @torch.inference_mode()
    def decode(prompt: list[int], tokens: int) -> Run:
        ids = torch.tensor([prompt])
        began = time.perf_counter()
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=0
        )
        return Run(time.perf_counter() - began, out[0, len(prompt) :].tolist())

    return decode


def of_llama_cpp(interpreter: str, gguf: Path, threads: int) -> Decode:
    """llama.cpp in a process of its own: it waits idle between its turns."""
    script = Path(__file__).with_name("llama_cpp_side.py")
    command = [interpreter, str(script), str(gguf), str(threads)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def decode(prompt: list[int], tokens: int) -> Run:
        stdin.write(json.dumps({"prompt": prompt, "tokens": tokens}) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise SystemExit(f"{interpreter} failed; has it llama-cpp-python?")
        return Run(**json.loads(answer))

    return decode


def measure(sides: dict[str, Decode], prompt: list[int], tokens: int, repeats: int) -> dict[str, list[Run]]:
    """Every side in turn; the first round warms up and is not counted."""
    runs: dict[str, list[Run]] = {name: [] for name in sides}
    for repeat in range(repeats + 1):
        for name, decode in sides.items():
            run = decode(prompt, tokens)
            print(f"round {repeat}: {name} {tokens / run.seconds:.1f} tokens/s", file=sys.stderr, flush=True)
            if repeat:
                runs[name].append(run)
    return runs


def same_until(a: list[int], b: list[int]) -> int:
    """Leading ids that agree."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def compare(runs: dict[str, list[Run]], tokens: int) -> list[dict[str, Any]]:
    """One row for each of our sides; the ratios are those of the same round."""
    rows: list[dict[str, Any]] = []
    for name in (name for name in runs if name.startswith("anyorder")):
        mine, dtype = runs[name], name.split()[1]
        row: dict[str, Any] = {
            "side": name.removeprefix("anyorder "),
            "dtype": dtype,
            "tokens_per_second": _speed(mine, tokens),
            "tokens_per_pass": tokens / mine[0].passes,
            "outside_model": Spread.of([run.outside / run.seconds for run in mine]),
        }
        for other in ("transformers", "llama.cpp"):
            theirs = runs.get(f"{other} {dtype if other == 'transformers' else 'Q4_1'}")
            if theirs:
                row[f"{other}_tokens_per_second"] = _speed(theirs, tokens)
                row[f"over_{other}"] = Spread.of([b.seconds / a.seconds for a, b in zip(mine, theirs, strict=True)])
        row["same_ids_as_transformers"] = same_until(mine[0].ids, runs[f"transformers {dtype}"][0].ids)
        rows.append(row)
    return rows


def _speed(runs: list[Run], tokens: int) -> Spread:
    return Spread.of([tokens / run.seconds for run in runs])


def report(rows: list[dict[str, Any]], tokens: int) -> str:
    """The rows as markdown."""
    head = ("weights", "anyorder, tokens/s", "tokens per pass", "transformers, tokens/s", "ratio", "same ids",
            "same when fed their text", "over llama.cpp (4-bit weights)", "outside the forward")  # fmt: skip
    cells = [
        (row["side"], row["tokens_per_second"].text(1), f"{row['tokens_per_pass']:.2f}",
         row["transformers_tokens_per_second"].text(1), f"**{row['over_transformers'].text()}×**",
         "all" if row["same_ids_as_transformers"] == tokens else f"the first {row['same_ids_as_transformers']}",
         f"{100 * row['agreement']:.1f} %", f"{row['over_llama.cpp'].text()}×" if "over_llama.cpp" in row else "-",
         f"{100 * row['outside_model'].median:.1f} %")
        for row in rows
    ]  # fmt: skip
    text = table(head, cells)
    if "llama.cpp_tokens_per_second" in rows[0]:
        text += f"\n\nllama.cpp, Q4_1 (4-bit) weights: {rows[0]['llama.cpp_tokens_per_second'].text(1)} tokens/s"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder of a Llama or Qwen checkpoint; the default model if left out")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5, help="counted rounds")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--llama-python", help="interpreter of an environment with llama-cpp-python")
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    facts = machine()
    folder = locate(args.model, revision=None, offline=True)
    models = {dtype: anyorder.load(args.model, dtype=dtype, device="cpu", offline=True) for dtype in args.dtypes}
    tokenizer = next(iter(models.values())).tokenizer
    prompt = [1, 2, 3, 4] if tokenizer is None else tokenizer.encode_chat([{"role": "user", "content": PROMPT}])
    sides: dict[str, Decode] = {}
    for dtype, model in models.items():
        sides[f"anyorder {dtype}"] = ours(model, "none")
        sides[f"anyorder {dtype} lookup"] = ours(model, "lookup")
        sides[f"transformers {dtype}"] = of_transformers(folder, dtype)
    if args.llama_python:
        from anyorder.models.load.default import default_gguf

        sides["llama.cpp Q4_1"] = of_llama_cpp(args.llama_python, default_gguf(), args.threads)
    runs = measure(sides, prompt, args.tokens, args.repeats)
    rows = compare(runs, args.tokens)
    for row in rows:
        row["agreement"] = agreement(models[row["dtype"]], prompt, runs[f"transformers {row['dtype']}"][0].ids)
    if any(row["same_ids_as_transformers"] != args.tokens for row in rows if row["dtype"] == "float32"):
        raise SystemExit("float32: the ids differ from those of transformers, so the times cannot be compared")
    print(f"Machine: {machine_line(facts)}\n")
    print(f"Prompt {len(prompt)} tokens, answer {args.tokens}, greedy; the whole time, prompt included; medians of "
          f"{args.repeats} rounds (least-largest)\n")  # fmt: skip
    print(report(rows, args.tokens))
    save("causal", {"machine": facts, "prompt_tokens": len(prompt), "tokens": args.tokens, "rows": rows}, args.out)


if __name__ == "__main__":
    main()
