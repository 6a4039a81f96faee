"""Quality against passes on documents that can be checked: where independence breaks, and what a threshold recovers.

    python benchmarks/checkable_cliff.py                               # all exams, some minutes on one core
    python benchmarks/checkable_cliff.py --exams records/any --count 20 --picture cliff.png

The model "tasks" (or --model) sits the exams of `anyorder.exam` in two ways. "steps": a fixed number of passes, each
with its share of the slots, the surest first. "threshold": each pass commits the slots that are at least so sure. Every
slot of a pass is drawn by itself, so that where answers have to agree, too many at once break them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from common import machine, machine_line, save, table

import anyorder
from anyorder.exam import EXAMS, Exam, independent, sit
from anyorder.tasks import cities, records, sudoku

PASSES = (1, 2, 4, 8, 16, 32)
THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
SHOWN = ("cities/any", "records/any", "sudoku/any", "sudoku/4-givens", "addition/both", "addition/sum")
"""Exams in the picture."""
PERFECT = {
    "cities/any": lambda: independent(cities.documents(), cities.CITIES.length),
    "records/any": lambda: independent(records.documents(), records.RECORDS.length),
    "sudoku/any": lambda: independent(sudoku.grids(), sudoku.SUDOKU.length),
}
"""What one pass comes to with exact probabilities, where all documents can be counted."""


def ways(exam: Exam) -> Iterator[tuple[str, float | None, dict[str, Any]]]:
    """(way, setting, parameters) of everything that is tried; the last steps are one slot per pass."""
    for steps in PASSES:
        if steps < exam.slots:
            yield "steps", steps, {"steps": steps}
    yield "steps", None, {}
    for threshold in THRESHOLDS:
        yield "threshold", threshold, {"policy": "threshold", "threshold": threshold}


def measure(model: Any, exam: Exam, count: int, seed: int) -> dict[str, Any]:
    """One exam in all ways."""
    rows: list[dict[str, Any]] = []
    for way, setting, params in ways(exam):
        began = time.perf_counter()
        score = sit(model, exam, count, seed=seed, **params)
        low, high = score.interval
        rows.append(
            {"way": way, "setting": setting, "passes": score.passes, "right": score.right, "share": score.share,
             "low": low, "high": high, "seconds": time.perf_counter() - began}
        )  # fmt: skip
        print(f"{exam.name} {way} {setting}: {score.right}/{count}", file=sys.stderr, flush=True)
    perfect = PERFECT[exam.name]() if exam.name in PERFECT else None
    return {"exam": exam.name, "slots": exam.slots, "several": exam.several, "count": count,
            "one_pass_with_exact_probabilities": perfect, "rows": rows}  # fmt: skip


def report(result: dict[str, Any]) -> str:
    """One exam as Markdown."""
    rows = [
        (f"{row['way']} {'one slot per pass' if row['setting'] is None else format(row['setting'], 'g')}",
         f"{row['passes']:.1f}", f"{row['share']:.1%}", f"{row['low']:.1%} to {row['high']:.1%}")
        for row in result["rows"]
    ]  # fmt: skip
    answers = "several right answers, drawn" if result["several"] else "one right answer or the best one, not drawn"
    perfect = result["one_pass_with_exact_probabilities"]
    known = "" if perfect is None else f"; one pass with exact probabilities: {perfect:.1g}"
    title = f"### {result['exam']}: {result['count']} problems of {result['slots']} or more slots, {answers}{known}"
    return f"{title}\n\n{table(('way', 'passes', 'right', '95 % interval'), rows)}\n"


def draw(results: list[dict[str, Any]], target: Path) -> None:
    """Share right over passes, a panel per exam."""
    from matplotlib.figure import Figure

    columns = min(3, len(results))
    lines = -(-len(results) // columns)
    figure = Figure(figsize=(3.6 * columns, 2.9 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharey=True).flatten()
    for panel, result in zip(panels, results, strict=False):
        for way, style, label in (("steps", "o-", "fixed number of passes"), ("threshold", "s--", "threshold")):
            rows = sorted((row for row in result["rows"] if row["way"] == way), key=lambda row: row["passes"])
            shares = [100 * row["share"] for row in rows]
            bounds = [[100 * abs(row["share"] - row[end]) for row in rows] for end in ("low", "high")]
            panel.errorbar([row["passes"] for row in rows], shares, yerr=bounds, fmt=style, capsize=2, markersize=4,
                           linewidth=1.2, label=label)  # fmt: skip
        panel.set_title(result["exam"], fontsize=10)
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.set_ylim(-4, 104)
        panel.grid(alpha=0.3)
    for panel in panels[len(results) :]:
        panel.set_axis_off()
    figure.supxlabel("forward passes per document", fontsize=10)
    figure.supylabel("right documents, %", fontsize=10)
    panels[0].legend(fontsize=8, loc="center right")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tasks")
    parser.add_argument("--exams", nargs="+", choices=EXAMS, default=list(EXAMS))
    parser.add_argument("--count", type=int, default=400, help="problems of an exam")
    parser.add_argument("--seed", type=int, default=0, help="of problems and draws")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    parser.add_argument("--picture", type=Path, help="draw the results there; needs matplotlib")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    facts = machine()
    print(f"Machine: {machine_line(facts)}; model {args.model}, seed {args.seed}\n", flush=True)
    model = anyorder.load(args.model, device="cpu")
    results = [measure(model, EXAMS[name], args.count, args.seed) for name in args.exams]
    for result in results:
        print(report(result))
    save("checkable_cliff", {"machine": facts, "model": args.model, "seed": args.seed, "results": results}, args.out)
    if args.picture:
        draw([result for result in results if result["exam"] in SHOWN] or results, args.picture)


if __name__ == "__main__":
    main()
