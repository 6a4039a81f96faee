"""Drafts against one token per pass: the default model, greedy, the 40 held-out prompts, the same text.

    python benchmarks/lossless.py                                    # some twenty minutes on two cores
    python benchmarks/lossless.py --prompts 5 --tokens 32 --dtypes float32
    python benchmarks/lossless.py --plot lossless.png                # needs matplotlib

Every prompt is decoded with every draft, one behind the other and in another order each time, so that a pair of times
is taken under the same load of the machine. In float32 the texts must be equal or the script fails; in bfloat16 a
near-tie may fall otherwise when several rows are computed at once, so it is counted how many are. Tokens per forward is
all tokens over all passes, the prompt's pass included. Nothing of the drafts was fitted on these prompts, and none of
them stands in the text of the draft table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from common import Spread, machine, machine_line, save, table

import anyorder
from anyorder.conversion.heldout import HeldOut, encode, fixed_questions
from anyorder.errors import ParameterError
from anyorder.params import Draft

PLAIN, BASELINE = "none", "lookup"
DRAFTS = tuple(name for name in get_args(Draft) if name != "auto")


@dataclass(frozen=True)
class Run:
    """One answer; `outside` is the time outside the model's forward, in seconds."""

    ids: tuple[int, ...]
    tokens: int
    passes: int
    positions: int
    seconds: float
    outside: float


Runs = dict[str, dict[str, Run]]
"""Prompt -> draft -> its run."""


def answer(model: Any, prompt: HeldOut, draft: str, tokens: int) -> Run:
    generation = anyorder.generate(model, list(prompt.prompt_ids), mode="causal", draft=draft, max_new_tokens=tokens)
    stats, seconds = generation.stats, generation.stats.time_to_last_s
    drafted = stats.positions - len(prompt.prompt_ids) + 1
    return Run(generation.ids, stats.tokens, stats.passes, drafted, seconds, seconds - stats.model_s)


def possible(model: Any, prompt: HeldOut, drafts: Sequence[str]) -> list[str]:
    """The drafts that the model knows."""

    def knows(draft: str) -> bool:
        try:
            answer(model, prompt, draft, 1)
        except ParameterError:
            return False
        return True

    return [draft for draft in drafts if knows(draft)]


def measure(model: Any, prompts: Sequence[HeldOut], drafts: Sequence[str], tokens: int) -> Runs:
    """Every prompt with every draft."""
    answer(model, prompts[0], PLAIN, 8)  # warms up
    runs: Runs = {}
    for number, prompt in enumerate(prompts):
        first = number % len(drafts)
        order = [*drafts[first:], *drafts[:first]]
        runs[prompt.id] = {draft: answer(model, prompt, draft, tokens) for draft in order}
        speeds = ", ".join(f"{d} {r.tokens / r.seconds:.1f}" for d, r in sorted(runs[prompt.id].items()))
        print(f"{prompt.id}: {speeds} tokens/s", file=sys.stderr, flush=True)
    return runs


def compare(runs: Runs, dtype: str) -> list[dict[str, Any]]:
    """One row per draft; the ratios are those of the same prompt."""
    drafts = list(next(iter(runs.values())))
    return [_row(runs, draft, dtype) for draft in sorted(drafts, key=_place)]


def _place(draft: str) -> int:
    return DRAFTS.index(draft)


def _row(runs: Runs, draft: str, dtype: str) -> dict[str, Any]:
    own = [found[draft] for found in runs.values()]
    plain = [found[PLAIN] for found in runs.values()]
    lookup = _tpf([found[BASELINE] for found in runs.values()])
    return {
        "draft": draft,
        "dtype": dtype,
        "tokens_per_forward": _tpf(own),
        "over_lookup": _tpf(own) / lookup,
        "rows_per_pass": sum(run.positions for run in own) / sum(run.passes for run in own),
        "tokens_per_second": Spread.of([run.tokens / run.seconds for run in own]),
        "speedup": Spread.of([b.seconds / a.seconds for a, b in zip(own, plain, strict=True)]),
        "speedup_of_sums": sum(run.seconds for run in plain) / sum(run.seconds for run in own),
        "equal_texts": sum(a.ids == b.ids for a, b in zip(own, plain, strict=True)),
        "prompts": len(own),
        "outside_model": Spread.of([run.outside / run.seconds for run in own]),
    }


def _tpf(runs: Sequence[Run]) -> float:
    return sum(run.tokens for run in runs) / sum(run.passes for run in runs)


def by_category(runs: Runs, prompts: Sequence[HeldOut]) -> dict[str, dict[str, float]]:
    """Category -> draft -> tokens per forward."""
    found: dict[str, dict[str, float]] = {}
    for category in dict.fromkeys(prompt.category for prompt in prompts):
        own = [runs[prompt.id] for prompt in prompts if prompt.category == category]
        found[category] = {draft: _tpf([run[draft] for run in own]) for draft in sorted(own[0], key=_place)}
    return found


def report(rows: Sequence[dict[str, Any]]) -> str:
    head = ("draft", "weights", "tokens per forward", "over lookup", "rows per pass", "tokens/s", "over plain",
            "equal texts", "outside the forward")  # fmt: skip
    cells = [
        (f"`{row['draft']}`", row["dtype"], f"**{row['tokens_per_forward']:.2f}**", f"{row['over_lookup']:.2f}×",
         f"{row['rows_per_pass']:.1f}", row["tokens_per_second"].text(1), f"**{row['speedup'].text()}×**",
         f"{row['equal_texts']} of {row['prompts']}", f"{100 * row['outside_model'].median:.1f} %")
        for row in rows
    ]  # fmt: skip
    return table(head, cells)


def plot(categories: dict[str, dict[str, float]], rows: Sequence[dict[str, Any]], target: Path) -> None:
    """Tokens per forward by category, with the line that all prompts together give."""
    from matplotlib.figure import Figure

    drafts = [row["draft"] for row in rows if row["draft"] != PLAIN]
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / max(1, len(drafts))
    for index, draft in enumerate(drafts):
        places = [place + index * width for place in range(len(categories))]
        axes.bar(places, [found[draft] for found in categories.values()], width, label=draft, color=f"C{index}")
        whole = next(row["tokens_per_forward"] for row in rows if row["draft"] == draft)
        axes.axhline(whole, color=f"C{index}", linestyle="--", linewidth=1)
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(categories))], list(categories))
    axes.set_ylabel("tokens per forward")
    axes.legend(title="draft (dashed: all prompts)")
    axes.grid(axis="y", alpha=0.3)
    figure.savefig(target, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model with a causal mode; the default model if left out")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--drafts", nargs="+", default=list(DRAFTS), help="of those the model knows")
    parser.add_argument("--prompts", type=int, help="the first of them; all if left out")
    parser.add_argument("--tokens", type=int, default=160, help="longest answer")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--plot", type=Path, help="picture of tokens per forward by category")
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    facts, rows, parts = machine(), list[dict[str, Any]](), dict[str, Any]()
    for dtype in args.dtypes:
        model = anyorder.load(args.model, dtype=dtype, device="cpu", offline=True)
        prompts = encode(model, fixed_questions())[: args.prompts]
        drafts = possible(model, prompts[0], list(dict.fromkeys([PLAIN, BASELINE, *args.drafts])))
        runs = measure(model, prompts, drafts, args.tokens)
        rows += compare(runs, dtype)
        parts[dtype] = {
            "categories": by_category(runs, prompts),
            "runs": {key: {draft: asdict(run) | {"ids": None} for draft, run in found.items()}
                     for key, found in runs.items()},
        }  # fmt: skip
    if any(row["equal_texts"] < row["prompts"] for row in rows if row["dtype"] == "float32"):
        raise SystemExit("float32: a draft changed a text, so the times cannot be compared")
    print(f"Machine: {machine_line(facts)}\n")
    print(f"{rows[0]['prompts']} prompts, answers of at most {args.tokens} tokens, greedy; the whole time, prompt "
          "included; medians over prompts (least-largest)\n")  # fmt: skip
    print(report(rows))
    save("lossless", {"machine": facts, "tokens": args.tokens, "rows": rows, "by_dtype": parts}, args.out)
    if args.plot:
        dtype = args.dtypes[0]
        plot(parts[dtype]["categories"], [row for row in rows if row["dtype"] == dtype], args.plot)


if __name__ == "__main__":
    main()
