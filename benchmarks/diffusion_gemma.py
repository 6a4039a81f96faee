"""DiffusionGemma of random weights: ours against transformers' own `generate`, the same work on both sides.

    python benchmarks/diffusion_gemma.py                              # both sizes, about ten minutes on one core
    python benchmarks/diffusion_gemma.py --sizes tiny --repeats 1

A canvas of noise takes exactly `--passes` denoising passes on both sides: random weights are never sure enough to stop
before. Draws differ, so texts do; instead the logits of one canvas behind the prompt, told and not told what a pass
before expected, must agree or the script fails. In mode causal the peer is a plain loop over transformers' encoder and
output head with a dynamic cache, greedy, and the ids must be equal. Memory is what a decode adds to the resident size
of the process at its peak, sampled every few milliseconds in a round of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common import Spread, machine, machine_line, save, table, unit_gain
from published_shapes import DIFFUSION_GEMMA

import anyorder
from anyorder.runner import Runner
from anyorder.window import Window

TOLERANCE = 1e-3
NEVER = 1e-12
"""Nats of mean entropy that no pass of random weights is below."""
VISION = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
          "num_key_value_heads": 2, "head_dim": 16, "position_embedding_size": 16}  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """Widths that differ; the proportions are the published ones: inner 3/4, an expert 1/4 of hidden."""

    hidden: int
    layers: int
    heads: int
    vocab: int
    experts: int = 32
    top: int = 8
    canvas: int = 256

    def config(self) -> dict[str, Any]:
        """config.json: five sliding layers, then a full one without values of its own."""
        kinds = ["full_attention" if index % 6 == 5 else "sliding_attention" for index in range(self.layers)]
        text = {
            "hidden_size": self.hidden, "intermediate_size": self.hidden * 3 // 4,
            "moe_intermediate_size": self.hidden // 4, "num_hidden_layers": self.layers, "layer_types": kinds,
            "num_attention_heads": self.heads, "num_key_value_heads": self.heads // 2,
            "num_global_key_value_heads": max(self.heads // 8, 1), "head_dim": 64, "global_head_dim": 128,
            "num_experts": self.experts, "top_k_experts": self.top, "vocab_size": self.vocab, "sliding_window": 128,
        }  # fmt: skip
        ids = {"boi_token_id": self.vocab - 3, "eoi_token_id": self.vocab - 2, "image_token_id": self.vocab - 1}
        return {
            **DIFFUSION_GEMMA, **ids, "canvas_length": self.canvas, "dtype": "float32",
            "text_config": DIFFUSION_GEMMA["text_config"] | text,
            "vision_config": DIFFUSION_GEMMA["vision_config"] | VISION,
        }  # fmt: skip


SIZES: dict[str, tuple[Sizes, str]] = {  # and what they stand for
    "gemma-vocabulary": (Sizes(hidden=256, layers=6, heads=4, vocab=262_144), "the published vocabulary"),
    "gemma-shape": (
        Sizes(hidden=512, layers=12, heads=8, vocab=16_384),
        "a vocabulary cut so that the head is a fifth of a position's arithmetic, as in 26B-A4B",
    ),
    "tiny": (Sizes(hidden=32, layers=6, heads=2, vocab=128, experts=4, top=2, canvas=8), "for the smoke test"),
}


def random_model(sizes: Sizes, seed: int = 0) -> Any:
    """transformers' model with matrices of unit gain."""
    import transformers

    model = transformers.DiffusionGemmaForBlockDiffusion(transformers.DiffusionGemmaConfig(**sizes.config())).eval()
    unit_gain(model, seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("self_attn.q_norm.weight"):
                weight.fill_(weight.shape[0] ** -0.5)  # attention of random queries and keys as sharp as a trained one
    return model


Decode = Callable[[], list[int]]


def sides(reference: Any, model: Any, prompt: list[int], *, canvases: int, passes: int, tokens: int) -> dict[str, Any]:
    """What is compared: name -> decode, ours first."""
    length = canvases * reference.config.canvas_length
    setting: dict[str, Any] = {"t_min": 0.4, "t_max": 0.8, "stability_threshold": 1, "confidence_threshold": NEVER}

    def block() -> list[int]:
        answer = anyorder.generate(model, prompt, max_new_tokens=length, steps=passes, stop_ids=(), **setting)
        if answer.stats.passes != canvases * passes:
            raise SystemExit(f"ours took {answer.stats.passes} passes instead of {canvases * passes}")
        return list(answer.ids)

    def of_transformers(cache: str) -> Decode:
        def decode() -> list[int]:
            out = reference.generate(
                torch.tensor([prompt]), max_new_tokens=length, max_denoising_steps=passes, cache_implementation=cache,
                disable_compile=True, eos_token_id=None, pad_token_id=None, return_dict_in_generate=True, **setting,
            )  # fmt: skip
            if round(length / float(out.tokens_per_forward[0])) != canvases * passes:
                raise SystemExit("transformers took another number of passes")
            return out.sequences[0, len(prompt) :].tolist()

        return decode

    def causal() -> list[int]:
        answer = anyorder.generate(model, prompt, mode="causal", draft="none", max_new_tokens=tokens, stop_ids=())
        return list(answer.ids)

    return {
        "block": {"ours": block, "dynamic": of_transformers("dynamic"), "static": of_transformers("static")},
        "causal": {"ours": causal, "dynamic": lambda: plain_causal(reference, prompt, tokens)},
    }


@torch.inference_mode()
def plain_causal(reference: Any, prompt: list[int], tokens: int) -> list[int]:
    """Greedy, token by token, through transformers' encoder and output head."""
    from transformers import DynamicCache

    text = reference.config.text_config
    cache, ids, fed = DynamicCache(config=text), list[int](), torch.tensor([prompt])
    while len(ids) < tokens:
        start = len(prompt) + len(ids) - fed.shape[1]
        positions = torch.arange(start, start + fed.shape[1])[None]
        hidden = reference.model.encoder(input_ids=fed, cache=cache, position_ids=positions).last_hidden_state[:, -1]
        fed = reference.lm_head(hidden).argmax(-1, keepdim=True)  # a softcap keeps the order
        ids.append(int(fed))
    return ids


@torch.inference_mode()
def compare_logits(reference: Any, model: Any, prompt: list[int]) -> float:
    """Median over the rows of a canvas behind the prompt, told and not told, of a row's largest difference.

    Not the largest of all rows: where two experts tie, rounding decides which of them a row has.
    """
    sizes, length = reference.config, reference.config.canvas_length
    generator, vocab = torch.Generator().manual_seed(2), sizes.text_config.vocab_size
    canvas = torch.randint(vocab - 3, (1, length), generator=generator)
    worst, told = 0.0, None
    for _ in range(2):
        expected = reference(
            input_ids=torch.tensor([prompt]), decoder_input_ids=canvas, self_conditioning_logits=told
        ).logits
        soft = None if told is None else model.network.soften(told[0].softmax(-1))
        rows = torch.arange(len(prompt), len(prompt) + length)
        window = Window(ids=torch.cat([torch.tensor(prompt), canvas[0]]), start=0, visible=len(prompt) + length,
                        rows=rows, attention="causal", adapted=len(prompt), soft=soft, stores=False)  # fmt: skip
        (found,) = Runner(model.network).forward([window], [None])
        worst, told = max(worst, float((found - expected[0]).abs().amax(-1).median())), expected
    return worst


def resident() -> int:
    """Bytes of the process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def peak(decode: Decode) -> float:
    """MB that one decode adds at its peak."""
    before, most, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.003):
            most[0] = max(most[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    decode()
    done.set()
    watcher.join()
    return max(most[0] - before, 0) / 1e6


def measure(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """All sides in turn; the first round warms up and is not counted."""
    sizes, about = SIZES[name]
    reference = random_model(sizes)
    with tempfile.TemporaryDirectory() as folder:
        reference.save_pretrained(folder)
        (Path(folder) / "config.json").write_text(json.dumps(sizes.config()))
        model = anyorder.load(folder, device="cpu", dtype="float32")
        generator = torch.Generator().manual_seed(1)
        prompt = torch.randint(sizes.vocab - 3, (args.prompt_length,), generator=generator).tolist()
        difference = compare_logits(reference, model, prompt)
        if difference > TOLERANCE:
            raise SystemExit(
                f"{name}: logits differ by {difference} at the median row, so the times cannot be compared"
            )
        compared = sides(reference, model, prompt, canvases=args.canvases, passes=args.passes, tokens=args.tokens)
        rows = [row(mode, run(name, mode, decodes, args.repeats), args, sizes) for mode, decodes in compared.items()]
    parameters = sum(weight.numel() for weight in reference.model.decoder.parameters())
    return {"name": name, "about": about, "parameters": parameters, "difference": difference,
            "sizes": vars(sizes), "rows": [line for part in rows for line in part]}  # fmt: skip


def run(name: str, mode: str, decodes: dict[str, Decode], repeats: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {side: {"seconds": [], "ids": []} for side in decodes}
    for repeat in range(repeats + 1):
        for side, decode in decodes.items():
            began = time.perf_counter()
            ids = decode()
            seconds = time.perf_counter() - began
            print(f"{name} round {repeat}: {mode} {side} {seconds:.2f} s", file=sys.stderr, flush=True)
            found[side]["ids"] = ids
            if repeat:
                found[side]["seconds"].append(seconds)
    for side, decode in decodes.items():
        found[side]["peak"] = peak(decode)
    if mode == "causal" and found["ours"]["ids"] != found["dynamic"]["ids"]:
        raise SystemExit(f"{name}: the ids of mode causal differ, so the times cannot be compared")
    return found


def row(mode: str, found: dict[str, Any], args: argparse.Namespace, sizes: Sizes) -> list[dict[str, Any]]:
    """One row for each side; ratios are those of the same round."""
    tokens = args.canvases * sizes.canvas if mode == "block" else args.tokens
    passes = args.canvases * args.passes if mode == "block" else args.tokens
    mine = found["ours"]["seconds"]
    return [
        {
            "mode": mode, "side": "anyorder" if side == "ours" else f"transformers, {side}",
            "ms_per_pass": Spread.of([1e3 * s / passes for s in of["seconds"]]),
            "s_per_canvas": Spread.of([s / args.canvases for s in of["seconds"]]) if mode == "block" else None,
            "tokens_per_second": Spread.of([tokens / s for s in of["seconds"]]),
            "over": Spread.of([b / a for a, b in zip(mine, of["seconds"], strict=True)]),
            "peak_mb": of["peak"],
        }
        for side, of in found.items()
    ]  # fmt: skip


def report(result: dict[str, Any]) -> str:
    """One size as markdown."""
    head = ("mode", "side", "ms per pass", "s per canvas", "tokens/s", "times ours", "more memory at the peak, MB")
    cells = [
        (row["mode"], row["side"], row["ms_per_pass"].text(0),
         row["s_per_canvas"].text() if row["s_per_canvas"] else "", 
         row["tokens_per_second"].text(1), f"{row['over'].text()}×", f"{row['peak_mb']:.0f}")
        for row in result["rows"]
    ]  # fmt: skip
    title = f"{result['name']}: {result['parameters'] / 1e6:.0f}M parameters; {result['about']}"
    difference = f"Largest difference of a row's logits, median of rows: {result['difference']:.1e}"
    return f"### {title}\n\n{table(head, cells)}\n\n{difference}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["gemma-vocabulary", "gemma-shape"])
    parser.add_argument("--repeats", type=int, default=3, help="counted rounds")
    parser.add_argument("--prompt-length", type=int, default=256)
    parser.add_argument("--canvases", type=int, default=2)
    parser.add_argument("--passes", type=int, default=4, help="denoising passes per canvas; published: at most 48")
    parser.add_argument("--tokens", type=int, default=32, help="of mode causal")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    facts = machine()
    print(f"Machine: {machine_line(facts)}; medians of {args.repeats} rounds (least-largest)\n", flush=True)
    results = list[dict[str, Any]]()
    for name in args.sizes:
        results.append(measure(name, args))
        print(report(results[-1]), flush=True)
    save("diffusion_gemma", {"machine": facts, "passes": args.passes, "results": results}, args.out)


if __name__ == "__main__":
    main()
