"""What the benchmarks share: the machine, medians, tables, results as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Spread:
    """Median, least and largest of repeated measurements."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def text(self, digits: int = 2) -> str:
        """`median (low-high)`."""
        return f"{self.median:.{digits}f} ({self.low:.{digits}f}-{self.high:.{digits}f})"


def machine(threads: int | None = None) -> dict[str, Any]:
    """What the figures depend on; `load` is the number of runnable tasks at the start, ours included."""
    import torch

    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": threads or torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "isa": torch.backends.cpu.get_cpu_capability(),
        "load_1min": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def machine_line(facts: dict[str, Any]) -> str:
    """`machine` in one line."""
    load = "" if facts["load_1min"] is None else f", load {facts['load_1min']:.1f} at the start"
    return (f"{facts['cpu']}, {facts['cores']} cores, {facts['threads']} threads, {facts['isa']}, "
            f"torch {facts['torch']}, Python {facts['python']}{load}")  # fmt: skip


def unit_gain(model: Any, seed: int) -> None:
    """Draw all matrices of a module anew, so that each keeps the size of what it is multiplied with."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, weight.shape[-1] ** -0.5, generator=generator)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A markdown table; the first column is text, the others are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def save(name: str, results: dict[str, Any], folder: Path | None = None) -> Path:
    """Write `results` (dataclasses allowed as values) to `folder`/name.json."""
    target = (folder or RESULTS) / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(results, indent=1, default=asdict) + "\n")
    return target
