"""Checkpoints that are either whole or not there: written beside their place, synced, renamed, checked when read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from anyorder.errors import TrainingError
from anyorder.models.load.safetensors import MappedFile, view

STATE = "state.json"
_NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class Checkpoint:
    """A run at the end of a step."""

    folder: Path
    step: int
    """Steps that are done."""
    state: Mapping[str, Any]

    def tensors(self, name: str) -> dict[str, Tensor]:
        """What a file NAME.safetensors holds: views that are read when they are used."""
        return {key: view(entry) for key, entry in MappedFile(self.folder / f"{name}.safetensors").entries().items()}


def save(folder: Path, step: int, state: Mapping[str, Any], fill: Callable[[Path], None], *, keep: int) -> None:
    """Write a checkpoint into `folder`/step-N, then remove all but the newest `keep`.

    Args:
        state: JSON-able.
        fill: writes the files of the checkpoint into an empty folder.
    Raises:
        TrainingError: it cannot be written, for example because the disk is full; what was there before still is.
    """
    with _whole(folder, step) as beside:
        fill(beside)
        content = {"step": step, "files": _digests(beside), "state": state}
        text = json.dumps(content, ensure_ascii=False)
        outer = json.dumps({"digest": _digest_of(text), "content": text}, ensure_ascii=False)
        (beside / STATE).write_text(outer, "utf-8")
    for old in steps(folder)[:-keep]:
        shutil.rmtree(folder / f"step-{old}", ignore_errors=True)


def load(path: Path) -> Checkpoint:
    """Read a checkpoint and compare every file with what was written.

    Raises:
        TrainingError: a file is missing, cut off or changed.
    """
    content = _content(path)
    for name, digest in content["files"].items():
        if not (path / name).is_file() or _digest(path / name) != digest:
            raise TrainingError(f"checkpoint {path} is damaged: {name} is not what was written")
    return Checkpoint(path, content["step"], content["state"])


def newest(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole; None if there is none at all. Damaged ones are passed over with a warning.

    Raises:
        TrainingError: there are checkpoints, and all of them are damaged.
    """
    found = steps(folder)
    for step in reversed(found):
        try:
            return load(folder / f"step-{step}")
        except TrainingError as error:
            warnings.warn(f"{error}; trying the one before", stacklevel=2)
    if found:
        raise TrainingError(f"all checkpoints in {folder} are damaged; remove them to begin anew")
    return None


def steps(folder: Path) -> list[int]:
    """Steps of the checkpoints in a folder, rising; half-written ones do not count."""
    if not folder.is_dir():
        return []
    return sorted(int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))


@contextmanager
def _whole(folder: Path, step: int) -> Generator[Path]:
    """An empty folder that becomes `folder`/step-N when the block ends, or vanishes if it fails."""
    place, beside = folder / f"step-{step}", folder / f"step-{step}.part"
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        yield beside
        for path in [*beside.rglob("*"), beside]:
            _sync(path)
        if place.exists():  # damaged, or of a run that went another way from an older checkpoint
            shutil.rmtree(place)
        os.replace(beside, place)
        _sync(folder)
    except OSError as error:
        last = max(steps(folder), default=None)
        kept = f"step {last} is kept in {folder}" if last is not None else "there is no earlier one"
        raise TrainingError(
            f"the checkpoint of step {step} cannot be written: {error}; {kept}. Make room and run again"
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _content(path: Path) -> dict[str, Any]:
    try:
        outer = json.loads((path / STATE).read_text("utf-8"))
        text, digest = outer["content"], outer["digest"]
        if _digest_of(text) == digest:
            return json.loads(text)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrainingError(f"checkpoint {path} is damaged: {STATE} cannot be read ({error})") from error
    raise TrainingError(f"checkpoint {path} is damaged: {STATE} is not what was written")


def _digests(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): _digest(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _sync(path: Path) -> None:
    """Have the disk hold what was written to a file or folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
