"""The folder of a run: whose it is, what it was begun with, and how it is begun anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anyorder.errors import DataError, ParameterError
from anyorder.training.data.prepare import MANIFEST, check_manifest, write_manifest
from anyorder.training.interfaces import Publish
from anyorder.training.recipe.publish import MODEL_FILES
from anyorder.training.recipe.read import check, parse
from anyorder.training.recipe.spec import Recipe

RECIPE = "recipe.toml"
FREE = ("about", "running", "precision", "optimisation")
"""Sections that may change when a run goes on; the trainer looks at the numbers of the last two itself."""
CHECKPOINTS, LOG, LOSS, CARD = "checkpoints", "log.jsonl", "loss.png", "README.md"
_WORK = ".model.part"


def begin(folder: Path, text: str, recipe: Recipe, manifest: dict[str, Any], *, fresh: bool) -> None:
    """Make the folder of a run, or see that it is the folder of this one.

    Args:
        text: the recipe as TOML.
        manifest: of the data.
        fresh: forget the run that is there.
    Raises:
        ParameterError: it holds a run of another recipe.
        DataError: it holds something else, or the data has changed since.
    """
    is_run = (folder / RECIPE).exists()
    if is_run and fresh:
        _forget(folder)
    elif is_run:
        _same(folder, recipe)
        check_manifest(manifest, folder)
    elif folder.exists() and any(folder.iterdir()):
        raise DataError(f"{folder} is not empty and holds no run; name another --out")
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(manifest, folder)
    (folder / RECIPE).write_text(text, "utf-8")


def _forget(folder: Path) -> None:
    """Remove what a run leaves in its folder, and nothing else."""
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    shutil.rmtree(folder / _WORK, ignore_errors=True)
    for name in (RECIPE, MANIFEST, LOG, LOSS, CARD, *MODEL_FILES):
        (folder / name).unlink(missing_ok=True)


def _same(folder: Path, recipe: Recipe) -> None:
    path = folder / RECIPE
    before = check(parse(path.read_text("utf-8"), str(path)), str(path))
    changes = list(_changes(before.model_dump(mode="json"), recipe.model_dump(mode="json")))
    changes = [(name, old, new) for name, old, new in changes if name.split(".")[0] not in FREE]
    if changes:
        told = "; ".join(f"{name} was {old!r}, now {new!r}" for name, old, new in changes)
        raise ParameterError(
            f"{folder} was begun with another recipe ({told}); begin anew with --fresh, or name an --out"
        )


def _changes(before: Any, now: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(place, old, new) of every value that differs."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _changes(before.get(key), now.get(key), f"{name}.{key}" if name else key)
    elif before != now:
        yield name, before, now


def place_model(folder: Path, publish: Publish, weights: Any) -> None:
    """Write the model beside its place and move it there, so that it is never half there."""
    work = folder / _WORK
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    publish(work, weights)
    for path in sorted(work.iterdir()):
        os.replace(path, folder / path.name)
    work.rmdir()
