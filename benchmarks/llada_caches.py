"""Our LLaDA decode with each cache against plain PyTorch loops on the same random weights.

    python benchmarks/llada_caches.py                  # both sizes, about 15 minutes on two cores
    python benchmarks/llada_caches.py --sizes tiny --repeats 1 --length 32

Every decode is run by both sides in turn; outputs must be equal or the script fails. No trained LLaDA of this size
exists, so the weights are random: queries and keys are drawn twice as large as usual, so that slots differ, and the
output head `SHARPNESS` times, so that the threshold commits two to four slots per pass as trained models do. (With
queries and keys four times as large the model is chaotic: float32 rounding alone then changes its text.) How an
approximate cache changes the text of a random model says nothing about a trained one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common import Spread, machine, machine_line, save, table
from plain_llada import PlainLLaDA, Sizes, decode
from safetensors.torch import save_file

import anyorder

CACHES = ("none", "prefix", "dual")
THRESHOLD = 0.9
SHARPNESS = 10.0
SIZES: dict[str, tuple[Sizes, str]] = {  # and what they stand for
    "llada-vocabulary": (
        Sizes(hidden=320, inner=960, layers=14, heads=5, vocab=126_464),
        "LLaDA's vocabulary; the output head is 69 % of a position's arithmetic",
    ),
    "llada-shape": (
        Sizes(hidden=768, inner=2304, layers=12, heads=12, vocab=8_192),
        "a vocabulary cut so that the head is 6 % of a position's arithmetic, as in LLaDA 8B (7 %)",
    ),
    "tiny": (Sizes(hidden=64, inner=192, layers=2, heads=2, vocab=512), "for the smoke test"),
}  # fmt: skip


@dataclass
class Run:
    """One decode."""

    seconds: float
    passes: int
    ids: list[int]
    model_s: float = 0.0
    policy_s: float = 0.0


def random_model(sizes: Sizes, seed: int = 0) -> PlainLLaDA:
    """Random weights of unit gain, but for the two factors in the module's docstring."""
    torch.manual_seed(seed)
    model = PlainLLaDA(sizes).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                gain = 2.0 if "q_proj" in name or "k_proj" in name else SHARPNESS if name == "ff_out.weight" else 1.0
                weight.normal_(0, 1.0 if name == "wte.weight" else gain * weight.shape[1] ** -0.5)
    return model


def write_checkpoint(model: PlainLLaDA, folder: Path) -> None:
    """The weights under their published names, with LLaDA's config.json."""
    sizes = model.sizes
    tensors = {f"model.transformer.{name}": weight.detach() for name, weight in model.named_parameters()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["LLaDAModelLM"], "model_type": "llada", "block_type": "llama", "activation_type": "silu",
        "layer_norm_type": "rms", "rms_norm_eps": 1e-5, "rope": True, "rope_theta": 500000.0, "weight_tying": False,
        "d_model": sizes.hidden, "mlp_hidden_size": sizes.inner, "n_layers": sizes.layers, "n_heads": sizes.heads,
        "n_kv_heads": sizes.heads, "vocab_size": sizes.vocab, "embedding_size": sizes.vocab,
        "max_sequence_length": sizes.max_context, "mask_token_id": sizes.mask_id, "eos_token_id": 0,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))


def ours(model: Any, prompt: list[int], *, length: int, block_length: int, cache: str) -> Run:
    began = time.perf_counter()
    answer = anyorder.generate(
        model, prompt, policy="threshold", threshold=THRESHOLD, cache=cache, block_length=block_length,
        max_new_tokens=length, stop_ids=(),
    )  # fmt: skip
    seconds = time.perf_counter() - began
    return Run(seconds, answer.stats.passes, list(answer.ids), answer.stats.model_s, answer.stats.policy_s)


def plain(model: PlainLLaDA, prompt: list[int], *, length: int, block_length: int, cache: str) -> Run:
    began = time.perf_counter()
    ids, passes = decode(model, prompt, length=length, block_length=block_length, tau=THRESHOLD, cache=cache)
    return Run(time.perf_counter() - began, passes, ids)


def measure(name: str, *, repeats: int, prompt_length: int, length: int, block_length: int) -> dict[str, Any]:
    """All caches of one size, both sides in turn; the first round warms up and is not counted."""
    sizes, about = SIZES[name]
    reference = random_model(sizes)
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(reference, Path(folder))
        model = anyorder.load(folder, device="cpu")
        prompt = torch.randint(1, sizes.mask_id, (prompt_length,), generator=torch.Generator().manual_seed(1)).tolist()
        setting = {"length": length, "block_length": block_length}
        runs: dict[str, list[Run]] = {}
        for repeat in range(repeats + 1):
            for cache in CACHES:
                for side, run in (("plain", plain), ("ours", ours)):
                    done = run(reference if side == "plain" else model, prompt, cache=cache, **setting)
                    runs.setdefault(f"{side} {cache}", []).append(done)
                    print(f"{name} round {repeat}: {side} {cache} {done.seconds:.2f} s", file=sys.stderr, flush=True)
    for cache in CACHES:
        if any(run.ids != runs[f"plain {cache}"][0].ids for run in runs[f"plain {cache}"] + runs[f"ours {cache}"]):
            raise SystemExit(f"{name}, cache {cache}: the outputs differ, so the times cannot be compared")
    counted = {key: done[1:] for key, done in runs.items()}
    rows = [_row(cache, counted, length) for cache in CACHES]
    facts = {"parameters": sizes.parameters, "sizes": vars(sizes), "sharpness": SHARPNESS}
    return {"name": name, "about": about, **facts, "prompt_length": prompt_length, **setting, "rows": rows}


def _row(cache: str, runs: dict[str, list[Run]], length: int) -> dict[str, Any]:
    mine, same, uncached = runs[f"ours {cache}"], runs[f"plain {cache}"], runs["plain none"]
    agreeing = sum(a == b for a, b in zip(mine[0].ids, uncached[0].ids, strict=True))
    return {
        "cache": cache,
        "passes": mine[0].passes,
        "tokens_per_pass": length / mine[0].passes,
        "ours_s": Spread.of([run.seconds for run in mine]),
        "plain_same_cache_s": Spread.of([run.seconds for run in same]),
        "plain_uncached_s": Spread.of([run.seconds for run in uncached]),
        "speedup_over_uncached": Spread.of([b.seconds / a.seconds for a, b in zip(mine, uncached, strict=True)]),
        "speedup_over_same_cache": Spread.of([b.seconds / a.seconds for a, b in zip(mine, same, strict=True)]),
        "tokens_per_second": Spread.of([length / run.seconds for run in mine]),
        "outside_model": Spread.of([1 - run.model_s / run.seconds for run in mine]),
        "policy": Spread.of([run.policy_s / run.seconds for run in mine]),
        "slots_equal_to_uncached": agreeing / length,
    }


def report(result: dict[str, Any]) -> str:
    """One size as markdown."""
    head = ("cache", "passes", "tokens per pass", "ours, s", "plain, same cache, s", "plain, uncached, s",
            "over plain uncached", "over plain same cache", "tokens/s", "outside the forward",
            "slots as uncached")  # fmt: skip
    rows = [
        (row["cache"], row["passes"], f"{row['tokens_per_pass']:.2f}", row["ours_s"].text(),
         row["plain_same_cache_s"].text(), row["plain_uncached_s"].text(),
         f"**{row['speedup_over_uncached'].text()}×**", f"{row['speedup_over_same_cache'].text()}×",
         row["tokens_per_second"].text(1), f"{100 * row['outside_model'].median:.1f} %",
         f"{100 * row['slots_equal_to_uncached']:.0f} %")
        for row in result["rows"]
    ]  # fmt: skip
    title = f"{result['name']}: {result['parameters'] / 1e6:.1f}M parameters; {result['about']}"
    setting = (
        f"prompt {result['prompt_length']}, answer {result['length']}, block {result['block_length']}, threshold "
        f"{THRESHOLD}, float32; outputs of ours and of the plain loop with the same cache are equal"
    )
    return f"### {title}\n\n{setting}\n\n{table(head, rows)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["llada-vocabulary", "llada-shape"])
    parser.add_argument("--repeats", type=int, default=3, help="counted rounds")
    parser.add_argument("--prompt-length", type=int, default=32)
    parser.add_argument("--length", type=int, default=256, help="answer tokens")
    parser.add_argument("--block-length", type=int, default=32)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    facts = machine()
    print(f"Machine: {machine_line(facts)}; medians of {args.repeats} rounds (least-largest)\n", flush=True)
    results = [
        measure(name, repeats=args.repeats, prompt_length=args.prompt_length, length=args.length,
                block_length=args.block_length)
        for name in args.sizes
    ]  # fmt: skip
    for result in results:
        print(report(result))
    save("llada_caches", {"machine": facts, "results": results}, args.out)


if __name__ == "__main__":
    main()
