"""What a training run left in its folder, for the report; every part may be missing."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anyorder.training import log

FILES = ("recipe.toml", "data.json", "README.md")
"""The recipe, the data manifest and the model card."""
LONGEST = 600
"""Points of a loss curve; longer logs are averaged to as many."""


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """A folder's recipe, manifest and losses."""

    files: Mapping[str, str] = field(default_factory=dict[str, str])
    losses: Sequence[tuple[float, float]] = ()
    """(step, loss)"""
    base: str | None = None
    """The model that was trained."""


def read_run(folder: Path) -> RunFolder:
    """What is there; a damaged last line of the log (the run may still be writing) ends the curve."""
    if not (folder / "log.jsonl").is_file():  # a README alone is no run
        return RunFolder()
    files = {name: (folder / name).read_text("utf-8", "replace") for name in FILES if (folder / name).is_file()}
    records = log.read(folder / "log.jsonl")
    losses = [(float(r["step"]), float(r["loss"])) for r in records if isinstance(r.get("loss"), int | float)]
    return RunFolder(files=files, losses=_thinned(losses), base=_base(files.get("recipe.toml")))


def _base(recipe: str | None) -> str | None:
    try:
        match tomllib.loads(recipe or ""):
            case {"model": {"source": str(source)}}:
                return source
            case _:
                return None
    except ValueError:  # the user's edit since; no figure depends on it
        return None


def _thinned(losses: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Means of neighbouring steps."""
    size = math.ceil(len(losses) / LONGEST)
    groups = [losses[start : start + size] for start in range(0, len(losses), size or 1)]
    return [(sum(s for s, _ in group) / len(group), sum(x for _, x in group) / len(group)) for group in groups]
