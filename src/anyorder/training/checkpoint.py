"""Checkpoints that are either whole or not there: written beside their place, synced, renamed, checked when read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from anyorder.errors import TrainingError

STATE = "state.json"
_NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class Checkpoint:
    """A run at the end of a step."""

    step: int
    """Steps that are done."""
    state: Mapping[str, Any]
    """JSON-able."""
    tensors: Mapping[str, Mapping[str, Tensor]]
    """File name without suffix -> tensors by name, on the CPU."""


def save(folder: Path, checkpoint: Checkpoint, *, keep: int) -> Path:
    """Write a checkpoint into `folder`/step-N, then remove all but the newest `keep`.

    Raises:
        TrainingError: it cannot be written, for example because the disk is full; what was there before still is.
    """
    place = folder / f"step-{checkpoint.step}"
    beside = folder / f"{place.name}.part"
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        _write(beside, checkpoint)
        if place.exists():  # of a run that went another way from an older checkpoint
            shutil.rmtree(place)
        os.replace(beside, place)
        _sync(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(beside, ignore_errors=True)
        last = max(steps(folder), default=None)
        kept = f"step {last} is kept in {folder}" if last is not None else "there is no earlier one"
        raise TrainingError(
            f"the checkpoint of step {checkpoint.step} cannot be written: {error}; {kept}. Make room and run again"
        ) from error
    for old in steps(folder)[:-keep]:
        shutil.rmtree(folder / f"step-{old}", ignore_errors=True)
    return place


def load(path: Path) -> Checkpoint:
    """Read a checkpoint and compare every file with what was written.

    Raises:
        TrainingError: a file is missing, cut off or changed.
    """
    content = _content(path)
    for name, digest in content["files"].items():
        if not (path / name).is_file() or _digest(path / name) != digest:
            raise TrainingError(f"checkpoint {path} is damaged: {name} is not what was written")
    tensors = {name.removesuffix(".safetensors"): load_file(path / name) for name in content["files"]}
    return Checkpoint(content["step"], content["state"], tensors)


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


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    files: dict[str, str] = {}
    for name, tensors in checkpoint.tensors.items():
        path = folder / f"{name}.safetensors"
        save_file({key: value.contiguous() for key, value in tensors.items()}, path)
        _sync(path)
        files[path.name] = _digest(path)
    content = {"step": checkpoint.step, "files": files, "state": dict(checkpoint.state)}
    text = json.dumps(content, ensure_ascii=False)
    with (folder / STATE).open("w", encoding="utf-8") as file:
        json.dump({"digest": hashlib.sha256(text.encode()).hexdigest(), "content": text}, file, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    _sync(folder)


def _content(path: Path) -> dict[str, Any]:
    try:
        outer = json.loads((path / STATE).read_text("utf-8"))
        text, digest = outer["content"], outer["digest"]
        if hashlib.sha256(text.encode()).hexdigest() == digest:
            return json.loads(text)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrainingError(f"checkpoint {path} is damaged: {STATE} cannot be read ({error})") from error
    raise TrainingError(f"checkpoint {path} is damaged: {STATE} is not what was written")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Have the disk hold what was written to a file or folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
