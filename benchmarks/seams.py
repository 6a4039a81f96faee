"""How well the gap of a document's passes tells wrong documents from right ones.

    python benchmarks/seams.py [--count 60] [--out benchmarks/results/seams.json]

On the exams of the small any-order model, at settings that make mistakes. AUROC: the chance that a wrong document has a
lower gap than a right one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import anyorder
from anyorder.exam import EXAMS, Exam
from anyorder.models.loaded import LoadedModel
from anyorder.seams import measure_seams
from anyorder.tasks import vocabulary

SETTINGS = (
    ("sudoku/any", 8),
    ("sudoku/any", 4),
    ("sudoku/4-givens", 4),
    ("cities/name", 1),
    ("cities/any", 20),
    ("cities/any", 30),
    ("addition/both", 2),
    ("records/any", 8),
)


def auroc(wrong: Sequence[float], right: Sequence[float]) -> float:
    """Of gaps: the chance that a wrong one is below a right one; a tie counts half."""
    return sum((w < r) + (w == r) / 2 for w in wrong for r in right) / (len(wrong) * len(right))


def measured(model: LoadedModel, exam: Exam, steps: int, count: int) -> dict[str, float | str | int]:
    """Both kinds of documents must occur."""
    gaps: dict[bool, list[float]] = {True: [], False: []}
    params = anyorder.DecodeParams(max_new_tokens=0, steps=steps, temperature=1.0 if exam.several else 0.0)
    for number, prompt in enumerate(exam.problems(count)):
        run = anyorder.stream(model, prompt, params.replace(seed=number))
        right = exam.task.is_right(vocabulary.decode(run.generations()[0].prompt_ids))
        gaps[right].append(measure_seams(model, run.events, params).gap)
    return {
        "exam": exam.name,
        "steps": steps,
        "wrong": len(gaps[False]),
        "of": count,
        "auroc": auroc(gaps[False], gaps[True]),
        "gap_right": sum(gaps[True]) / len(gaps[True]),
        "gap_wrong": sum(gaps[False]) / len(gaps[False]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60, help="documents per setting")
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    args = parser.parse_args()
    model = anyorder.load("tasks")
    print("| exam | passes | wrong | AUROC | gap if right | gap if wrong |\n| --- | --- | --- | --- | --- | --- |")
    rows = []
    for name, steps in SETTINGS:
        row = measured(model, EXAMS[name], steps, args.count)
        rows.append(row)
        print(
            f"| `{name}` | {steps} | {row['wrong']} of {row['of']} | {row['auroc']:.2f} | {row['gap_right']:+.1f} | "
            f"{row['gap_wrong']:+.1f} |",
            flush=True,
        )
    if args.out:
        args.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
