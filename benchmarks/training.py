"""Speed of training steps: tokens per second, and the share of what a large matrix product reaches on the same machine.

    OMP_NUM_THREADS=1 python benchmarks/training.py
    python benchmarks/training.py --shapes 135m --cases full --length 512 --rows 4
    python benchmarks/training.py --shapes tiny --steps 1

Weights and text are random; what is timed is `anyorder.training.stepper.Stepper.step`, the trainer's own step: data,
objective, forward, backward, clipping, AdamW. Operations are those of `flops.training_flops`, the least that a step
needs. With one thread the clock is the CPU time of the process, which others on the machine do not change much; with
more it is the wall.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common import Spread, machine, machine_line, save, table

from anyorder.models.adapter import Adapter
from anyorder.models.config import ModelConfig
from anyorder.models.transformer import Transformer
from anyorder.rates import matrix_rate
from anyorder.training import noise, objectives
from anyorder.training.batch import Batch
from anyorder.training.distributed import Team
from anyorder.training.memory import keep_freed_memory
from anyorder.training.noise import StepDraws
from anyorder.training.optimisation import Optimisation
from anyorder.training.passes import TrainingPass
from anyorder.training.stepper import Stepper
from anyorder.training.trainee import Trainee

MASK = 4
CPU = torch.device("cpu")


def config(hidden: int, inner: int, layers: int, heads: int, kv_heads: int, vocabulary: int) -> ModelConfig:
    return ModelConfig(
        hidden_size=hidden, intermediate_size=inner, num_layers=layers, num_heads=heads, num_kv_heads=kv_heads,
        head_dim=64, vocab_size=vocabulary, max_context=8192, rms_norm_eps=1e-5, tie_word_embeddings=True,
    )  # fmt: skip


SHAPES: dict[str, tuple[ModelConfig, str]] = {
    "135m": (config(576, 1536, 30, 9, 3, 49152), "SmolLM2-135M"),
    "wide": (config(2048, 8192, 4, 32, 32, 49152), "4 of the 24 layers of SmolLM2-1.7B"),
    "tiny": (config(64, 128, 2, 2, 1, 256), "for the smoke test"),
}


@dataclass
class RandomRows:
    """Rows without end, of one document each."""

    length: int
    vocabulary: int

    def batch(self, start: int, count: int) -> Batch:
        generator = torch.Generator().manual_seed(start)
        return Batch.of(torch.randint(MASK + 1, self.vocabulary, (count, self.length), generator=generator))

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def autoregressive(batch: Batch, draws: StepDraws) -> TrainingPass:
    return objectives.autoregressive(batch)


def llada(batch: Batch, draws: StepDraws) -> TrainingPass:
    groups = batch.num_documents
    t = noise.ratios(noise.stratified(draws.uniform("order", groups), draws.uniform("within", groups)))
    return objectives.masked_diffusion(batch, t, draws.uniform("mask", *batch.ids.shape), mask_token_id=MASK)


def fast_dllm(batch: Batch, draws: StepDraws) -> TrainingPass:
    t = noise.ratios(draws.uniform("order", batch.num_blocks(32)))
    uniform = draws.uniform("mask", *batch.ids.shape)
    return objectives.complementary(batch, t, uniform, mask_token_id=MASK, block_length=32)


def drafting(batch: Batch, draws: StepDraws) -> TrainingPass:
    return objectives.drafting(batch, mask_token_id=MASK, block_length=8, offset=draws.step % 8)


CASES: dict[str, tuple[str, Callable[[Batch, StepDraws], TrainingPass]]] = {
    "autoregressive": ("full", autoregressive),
    "llada": ("full", llada),
    "fast-dllm-v2": ("full", fast_dllm),
    "draft-lora": ("lora", drafting),
}


def network(shape: ModelConfig, method: str) -> Transformer | Trainee:
    """Random weights: float32 to be trained, bfloat16 below an adapter."""
    made = Transformer(shape)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.02)
    if method == "full":
        return made
    adapter = Adapter(shape, rank=32, alpha=64, mask_token_id=MASK).initialise(torch.zeros(shape.hidden_size))
    return Trainee(made.bfloat16(), adapter)


def measure(shape: ModelConfig, case: str, args: argparse.Namespace, clock: Callable[[], float]) -> dict[str, Any]:
    """Steps of one case, the first of which is not counted, and the matrix rate before and behind them."""
    method, objective = CASES[case]
    settings = Optimisation(
        steps=args.steps + 1, batch_rows=args.rows, lr=1e-4, precision="bfloat16" if method == "full" else "network"
    )
    rows = RandomRows(args.length, shape.vocab_size)
    stepper = Stepper(network(shape, method), rows, objective, settings, Team(CPU), recompute=False)
    rates = [matrix_rate(torch.bfloat16, CPU, clock)]
    seconds, operations = [], 0.0
    for number in range(args.steps + 1):
        began = clock()
        step = stepper.step(number)
        if number:
            seconds.append(clock() - began)
            operations += step.flops
    rates.append(matrix_rate(torch.bfloat16, CPU, clock))
    tokens = args.rows * args.length
    return {
        "case": case,
        "method": method,
        "tokens_per_second": Spread.of([tokens / each for each in seconds]),
        "flops_per_second": operations / sum(seconds),
        "matrix_rate": max(rates),
        "share": operations / sum(seconds) / max(rates),
    }


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["135m", "wide"])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--length", type=int, default=512, help="tokens of a row")
    parser.add_argument("--rows", type=int, default=4, help="rows of a step")
    parser.add_argument("--steps", type=int, default=3, help="steps that count")
    parser.add_argument("--out", type=Path, help="folder of the JSON")
    args = parser.parse_args()
    facts = machine()
    keep_freed_memory()
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    results: list[dict[str, Any]] = []
    for shape in args.shapes:
        rows = [measure(SHAPES[shape][0], case, args, clock) for case in args.cases]
        results.append({"shape": shape, "stands_for": SHAPES[shape][1], "rows": rows})
        print(f"\n{shape}: {SHAPES[shape][1]}, {args.rows} rows of {args.length} tokens, bfloat16\n")
        head = ("", "tokens/s", "GFLOP/s", "of", "share")
        cells = [
            (
                f"{row['case']}, {row['method']}",
                row["tokens_per_second"].text(0),
                f"{row['flops_per_second'] / 1e9:.0f}",
                f"{row['matrix_rate'] / 1e9:.0f}",
                f"{row['share']:.0%}",
            )
            for row in rows
        ]
        print(table(head, cells), flush=True)
    print(f"\n{machine_line(facts)}; {clock.__name__}")
    save("training", {"machine": facts, "clock": clock.__name__, "arguments": vars(args) | {"out": None},
                      "results": results}, args.out)  # fmt: skip


if __name__ == "__main__":
    main()
