"""From a TOML file, and what the command line sets in it, to a checked recipe; every fault is one line of ours."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from anyorder.errors import DataError, ParameterError
from anyorder.training.recipe.faults import faults_of
from anyorder.training.recipe.spec import Recipe

SHIPPED = "anyorder.recipes"


def shipped() -> dict[str, str]:
    """Name -> text of the recipes that come with this package."""
    files = resources.files(SHIPPED).iterdir()
    return {
        file.name.removesuffix(".toml"): file.read_text("utf-8")
        for file in sorted(files, key=lambda file: file.name)
        if file.name.endswith(".toml")
    }


def recipe_text(source: str | Path) -> str:
    """The TOML of a file, or of a shipped recipe by its name.

    Raises:
        DataError: there is no such file or recipe, or it is not UTF-8.
    """
    path = Path(source)
    if path.is_file():
        try:
            return path.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from error
    known = shipped()
    if str(source) in known:
        return known[str(source)]
    near = get_close_matches(str(source), known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise DataError(f"no recipe at {str(source)!r}{hint} Give a TOML file or one of {', '.join(known)}")


def parse(text: str, where: str, changes: Sequence[str] = ()) -> dict[str, Any]:
    """TOML with changes, not yet checked.

    Args:
        where: name of the text, for messages.
        changes: `section.key=value`; the value is TOML, or a plain text where it is none.
    Raises:
        DataError: the text is no TOML.
        ParameterError: a change cannot be read.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{where} is no TOML: {error}") from error
    for change in changes:
        _change(table, change)
    return table


def _change(table: dict[str, Any], change: str) -> None:
    key, equals, value = change.partition("=")
    *path, last = key.strip().split(".")
    if not equals or not all((*path, last)):
        raise ParameterError(f"--set {change!r} is no change; write section.key=value")
    place: Any = table
    for part in path:
        place = place.setdefault(part, {}) if isinstance(place, dict) else _item(place, part, key)
    if isinstance(place, list):
        _item(place, last, key)
        place[int(last)] = _value(value)
    elif isinstance(place, dict):
        place[last] = _value(value)
    else:
        raise ParameterError(f"--set {key}: {'.'.join(path)} is no section but {place!r}")


def _item(place: Any, part: str, key: str) -> Any:
    if isinstance(place, list) and part.isdecimal() and int(part) < len(place):
        return place[int(part)]
    found = f"a list of {len(place)}" if isinstance(place, list) else repr(place)
    raise ParameterError(f"--set {key}: {part!r} leads nowhere in {found}; parts of a list are numbered from 0")


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def check(table: Mapping[str, Any], where: str) -> Recipe:
    """The recipe of a parsed file.

    Raises:
        ParameterError: a field is unknown, missing or wrong, or two of them contradict each other; all faults together.
    """
    try:
        return Recipe.model_validate_json(json.dumps(table, default=str), strict=True)
    except ValidationError as error:
        faults = faults_of(error.errors(), table)
    raise ParameterError(f"{where}: {'; '.join(faults)}")
