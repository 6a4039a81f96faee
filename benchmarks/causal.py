"""Our causal decode against `transformers` generate and llama.cpp: the default model, greedy, the same prompt.

    python benchmarks/causal.py
    python benchmarks/causal.py --llama-python PATH    # an interpreter that has llama-cpp-python
    python benchmarks/causal.py --model FOLDER --dtypes float32 --tokens 8 --repeats 1

All sides decode in turn, in one run. In float32 the ids must be equal to those of transformers or the script fails; in
bfloat16 two correct programs round differently and may part ways at a near-tie, so the first difference is reported.
llama.cpp reads the 4-bit GGUF file that the default model's float weights were dequantised from.
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

PROMPT = "Write a short story about a lighthouse keeper who finds a letter in a bottle."


@dataclass
class Run:
    """One decode; `outside` is our time outside the model's forward, in seconds."""

    seconds: float
    ids: list[int]
    outside: float = 0.0


Decode = Callable[[list[int], int], Run]


def ours(model: Any) -> Decode:
    def decode(prompt: list[int], tokens: int) -> Run:
        began = time.perf_counter()
        answer = anyorder.generate(model, prompt, mode="causal", max_new_tokens=tokens, stop_ids=())
        seconds = time.perf_counter() - began
        return Run(seconds, list(answer.ids), seconds - answer.stats.model_s)

    return decode


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


def compare(runs: dict[str, list[Run]], tokens: int, dtypes: list[str]) -> dict[str, Any]:
    """Speeds of all sides, and the ratios of ours to the others of the same round."""
    speeds = {name: Spread.of([tokens / run.seconds for run in done]) for name, done in runs.items()}
    ratios: dict[str, Spread] = {}
    agreement: dict[str, int] = {}
    outside: dict[str, Spread] = {}
    for dtype in dtypes:
        mine = runs[f"anyorder {dtype}"]
        outside[dtype] = Spread.of([run.outside / run.seconds for run in mine])
        for other in (f"transformers {dtype}", "llama.cpp Q4_1"):
            if other in runs:
                pairs = zip(mine, runs[other], strict=True)
                ratios[f"{dtype} over {other}"] = Spread.of([theirs.seconds / own.seconds for own, theirs in pairs])
        agreement[dtype] = same_until(mine[0].ids, runs[f"transformers {dtype}"][0].ids)
    return {"tokens_per_second": speeds, "ratios": ratios, "same_ids_as_transformers": agreement, "outside": outside}


def report(result: dict[str, Any], tokens: int, dtypes: list[str]) -> str:
    """The results as markdown."""
    speeds, ratios = result["tokens_per_second"], result["ratios"]
    rows: list[tuple[str, ...]] = []
    for dtype in dtypes:
        equal = result["same_ids_as_transformers"][dtype]
        others = [ratios[f"{dtype} over transformers {dtype}"], ratios.get(f"{dtype} over llama.cpp Q4_1")]
        rows.append(
            (dtype, speeds[f"anyorder {dtype}"].text(1), speeds[f"transformers {dtype}"].text(1),
             f"**{others[0].text()}×**", "all" if equal == tokens else f"the first {equal}",
             "-" if others[1] is None else f"{others[1].text()}×", f"{100 * result['outside'][dtype].median:.1f} %")
        )  # fmt: skip
    head = ("weights", "anyorder, tokens/s", "transformers, tokens/s", "ratio", "same ids",
            "over llama.cpp (4-bit weights)", "outside the forward")  # fmt: skip
    text = table(head, rows)
    if "llama.cpp Q4_1" in speeds:
        text += f"\n\nllama.cpp, Q4_1 (4-bit) weights: {speeds['llama.cpp Q4_1'].text(1)} tokens/s"
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
    sides: dict[str, Decode] = {}
    prompt = [1, 2, 3, 4]
    for dtype in args.dtypes:
        model = anyorder.load(args.model, dtype=dtype, device="cpu", offline=True)
        if model.tokenizer is not None:
            prompt = model.tokenizer.encode_chat([{"role": "user", "content": PROMPT}])
        sides[f"anyorder {dtype}"] = ours(model)
        sides[f"transformers {dtype}"] = of_transformers(folder, dtype)
    if args.llama_python:
        from anyorder.models.load.default import default_gguf

        sides["llama.cpp Q4_1"] = of_llama_cpp(args.llama_python, default_gguf(), args.threads)
    runs = measure(sides, prompt, args.tokens, args.repeats)
    result = compare(runs, args.tokens, args.dtypes)
    if result["same_ids_as_transformers"].get("float32", args.tokens) != args.tokens:
        raise SystemExit("float32: the ids differ from those of transformers, so the times cannot be compared")
    print(f"Machine: {machine_line(facts)}\n")
    print(f"Prompt {len(prompt)} tokens, answer {args.tokens}, greedy; the whole time, prompt included; medians of "
          f"{args.repeats} rounds (least-largest)\n")  # fmt: skip
    print(report(result, args.tokens, args.dtypes))
    save("causal", {"machine": facts, "prompt_tokens": len(prompt), "tokens": args.tokens, **result}, args.out)


if __name__ == "__main__":
    main()
