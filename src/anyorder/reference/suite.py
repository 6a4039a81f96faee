"""Finds the recorded families in a folder and runs every case."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from anyorder.errors import DataError, ModelError, UnknownFamily
from anyorder.models.load import load
from anyorder.models.loaded import LoadedModel
from anyorder.reference import decode, likelihood, logits
from anyorder.reference.outcome import Mismatch

Kind = Literal["logits", "decode", "likelihood"]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One recorded case."""

    family: str
    kind: Kind
    case: str
    passed: bool
    detail: str  # what was compared, or the first difference
    quirk: str | None = None  # the recording pins down a defect that is not reproduced


def families(directory: str | Path) -> list[Path]:
    """The recorded families in a folder: itself, or those of its subfolders with config.json and recordings.

    Raises:
        DataError: there is none.
    """
    root = Path(directory)
    if not root.is_dir():
        raise DataError(f"{root} is no folder; give one with config.json, model.safetensors and decode.json")
    found = [p for p in (root, *sorted(root.iterdir())) if (p / "config.json").is_file() and _recordings(p)]
    if not found:
        raise DataError(
            f"{root} holds no recorded family; each needs config.json and logits.safetensors or decode.json"
        )
    return found


def _recordings(folder: Path) -> bool:
    return (folder / "logits.safetensors").is_file() or (folder / "decode.json").is_file()


def run(directory: str | Path, *, dtype: str = "float32", device: str = "auto") -> list[CaseResult]:
    """Run every case of every family in a folder.

    A family that this version does not know gives one failed result that says so.

    Raises:
        DataError: the folder holds no recordings, or one of them is damaged.
    """
    return [result for folder in families(directory) for result in _family(folder, dtype, device)]


def _family(folder: Path, dtype: str, device: str) -> list[CaseResult]:
    recorded = _read_decode(folder)
    try:
        model = load(folder, dtype=dtype, device=device, mask_token_id=recorded.get("mask_token_id"))
    except UnknownFamily as error:
        return [CaseResult(folder.name, "logits", "load", False, str(error))]
    except ModelError as error:
        raise DataError(f"{folder}: {error}") from error
    results = [
        _checked(model, "logits", name, None, lambda c=case: logits.check(model, c))
        for name, case in logits.read(folder).items()
    ]
    for case in recorded.get("cases", []):
        results.append(
            _checked(model, "decode", case["name"], case.get("quirk"), lambda c=case: decode.check(model, recorded, c))
        )
    for index, case in enumerate(recorded.get("log_likelihood", [])):
        results.append(
            _checked(model, "likelihood", f"log_likelihood_{index}", None, lambda c=case: likelihood.check(model, c))
        )
    return results


def _read_decode(folder: Path) -> dict[str, Any]:
    path = folder / "decode.json"
    if not path.is_file():
        return {}
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise DataError(f"{path} is no valid JSON ({error}); copy it again") from error


def _checked(model: LoadedModel, kind: Kind, name: str, quirk: str | None, check: Callable[[], str]) -> CaseResult:
    try:
        detail = check()
    except Mismatch as difference:
        return CaseResult(model.spec.name, kind, name, False, str(difference), quirk)
    return CaseResult(model.spec.name, kind, name, True, detail, quirk)
