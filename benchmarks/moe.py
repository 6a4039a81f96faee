"""Causal decoding of a Qwen3-MoE of random weights: ours against transformers, the same ids.

    python benchmarks/moe.py                         # some minutes on one core
    python benchmarks/moe.py --sizes tiny --repeats 1 --prompt-length 8 --tokens 4 --batches 1 2

Greedy, float32, key-value caches on both sides, one prompt and several of the same length. transformers runs with each
of its experts implementations named in `--experts`; "grouped_mm" is its default. The ids must be equal or the script
fails. The prompt's time is that of an answer of one token.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common import Spread, machine, machine_line, save, table, unit_gain

import anyorder


@dataclass(frozen=True)
class Sizes:
    """Proportions as in Qwen3-30B-A3B: 8 experts per token, each 3/8 of hidden wide, four query heads per key head."""

    hidden: int
    layers: int
    heads: int
    vocab: int
    experts: int
    top: int = 8

    def config(self) -> dict[str, Any]:
        return {
            "hidden_size": self.hidden, "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads // 4, "head_dim": 64, "intermediate_size": 3 * self.hidden,
            "moe_intermediate_size": 3 * self.hidden // 8, "num_experts": self.experts,
            "num_experts_per_tok": self.top, "norm_topk_prob": True, "vocab_size": self.vocab,
            "max_position_embeddings": 4096, "rope_theta": 1e6, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
            "bos_token_id": None, "eos_token_id": None,
        }  # fmt: skip


SIZES = {
    "qwen3-moe-shape": Sizes(hidden=512, layers=8, heads=8, vocab=16_384, experts=48),
    "tiny": Sizes(hidden=32, layers=2, heads=4, vocab=96, experts=4, top=2),
}
Decode = Callable[[list[list[int]], int], list[list[int]]]


def random_model(sizes: Sizes, seed: int = 0) -> Any:
    """transformers' model with matrices of unit gain."""
    import transformers

    model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**sizes.config())).eval()
    unit_gain(model, seed)
    return model


def ours(model: Any) -> Decode:
    def decode(prompts: list[list[int]], tokens: int) -> list[list[int]]:
        setting: dict[str, Any] = {"mode": "causal", "draft": "none", "max_new_tokens": tokens, "stop_ids": ()}
        return [list(answer.ids) for answer in anyorder.generate_batch(model, prompts, **setting)]

    return decode


def of_transformers(reference: Any, experts: str) -> Decode:
    @torch.inference_mode()
    def decode(prompts: list[list[int]], tokens: int) -> list[list[int]]:
        reference.set_experts_implementation(experts)
        ids = torch.tensor(prompts)
        out = reference.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=0
        )
        return out[:, ids.shape[1] :].tolist()

    return decode


def measure(decodes: dict[str, Decode], prompts: list[list[int]], args: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each side, all in turn; the first round warms up and is not counted."""
    seconds: dict[tuple[str, int], list[float]] = {}
    for repeat in range(args.repeats + 1):
        texts = dict[str, list[list[int]]]()
        for side, decode in decodes.items():
            for tokens in (1, args.tokens):
                began = time.perf_counter()
                texts[side] = decode(prompts, tokens)
                took = time.perf_counter() - began
                print(f"round {repeat}: {len(prompts)} x {tokens} {side} {took:.2f} s", file=sys.stderr, flush=True)
                if repeat:
                    seconds.setdefault((side, tokens), []).append(took)
        if any(text != texts["anyorder"] for text in texts.values()):
            raise SystemExit("the ids differ, so the times cannot be compared")
    return [row(side, seconds, len(prompts), args.tokens) for side in decodes]


def row(side: str, seconds: dict[tuple[str, int], list[float]], batch: int, tokens: int) -> dict[str, Any]:
    first, whole, mine = seconds[side, 1], seconds[side, tokens], seconds["anyorder", tokens]
    steps = [b - a for a, b in zip(first, whole, strict=True)]
    return {
        "side": side,
        "batch": batch,
        "prompt_s": Spread.of(first),
        "ms_per_pass": Spread.of([1e3 * s / (tokens - 1) for s in steps]),
        "tokens_per_second": Spread.of([batch * tokens / s for s in whole]),
        "over": Spread.of([b / a for a, b in zip(mine, whole, strict=True)]),
    }


def report(rows: list[dict[str, Any]]) -> str:
    """The rows as markdown."""
    head = ("side", "prompts", "prompt, s", "ms per pass behind it", "tokens/s, prompt included", "times ours")
    return table(head, [
        (row["side"], row["batch"], row["prompt_s"].text(), row["ms_per_pass"].text(1),
         row["tokens_per_second"].text(1), f"{row['over'].text()}×")
        for row in rows
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", choices=SIZES, default="qwen3-moe-shape")
    parser.add_argument("--repeats", type=int, default=3, help="counted rounds")
    parser.add_argument("--prompt-length", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--experts", nargs="+", default=["grouped_mm", "eager"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    facts, sizes = machine(), SIZES[args.sizes]
    reference = random_model(sizes)
    with tempfile.TemporaryDirectory() as folder:
        reference.save_pretrained(folder)
        model = anyorder.load(folder, device="cpu", dtype="float32")
        decodes = {"anyorder": ours(model)}
        decodes |= {f"transformers, {name}": of_transformers(reference, name) for name in args.experts}
        generator = torch.Generator().manual_seed(1)
        rows = list[dict[str, Any]]()
        for batch in args.batches:
            prompts = torch.randint(sizes.vocab, (batch, args.prompt_length), generator=generator).tolist()
            rows += measure(decodes, prompts, args)
    parameters = sum(weight.numel() for weight in reference.parameters())
    print(f"Machine: {machine_line(facts)}; medians of {args.repeats} rounds (least-largest)\n")
    print(f"{parameters / 1e6:.0f}M random parameters, prompts of {args.prompt_length}, {args.tokens} tokens each\n")
    print(report(rows))
    save("moe", {"machine": facts, "sizes": vars(sizes), "parameters": parameters, "rows": rows}, args.out)


if __name__ == "__main__":
    main()
