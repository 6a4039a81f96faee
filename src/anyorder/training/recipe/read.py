"""From a TOML file, and what the command line sets in it, to a checked recipe; every fault is one line of ours."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from anyorder.errors import DataError, ParameterError
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
        faults = list(dict.fromkeys(_fault(fault, table) for fault in _first(error.errors())))
    raise ParameterError(f"{where}: {'; '.join(faults)}")


def _first(faults: Sequence[Any]) -> list[Any]:
    """Without those of lists that are too short for no other reason than that their items were wrong."""
    places = [tuple(fault["loc"]) for fault in faults]

    def follows(fault: Any) -> bool:
        own = tuple(fault["loc"])
        return any(place != own and place[: len(own)] == own for place in places)

    return [fault for fault in faults if fault["type"] != "too_short" or not follows(fault)]


def _fault(fault: Any, table: Any) -> str:
    """What was given, what is allowed."""
    place = tuple(fault["loc"])
    name, given = ".".join(map(str, _path(place, table))), _shown(fault.get("input"))
    message = str(fault["msg"]).removeprefix("Value error, ")
    match fault["type"]:
        case "extra_forbidden":
            return _unknown(name, place)
        case "missing":
            return f"`{name}` is missing"
        case "too_short" | "too_long":
            bound = "at least" if fault["type"] == "too_short" else "at most"
            number = fault["ctx"]["min_length" if fault["type"] == "too_short" else "max_length"]
            return f"`{name}` must have {bound} {number} entries, got {fault['ctx']['actual_length']}"
        case "union_tag_invalid":
            return f"`{name}.kind` must be one of {fault['ctx']['expected_tags']}, got {fault['ctx']['tag']!r}"
        case "union_tag_not_found":
            return f"`{name}.kind` is missing"
        case "value_error":
            return f"{name}: {message}" if name else message
        case _:
            return f"`{name}` {_must(message)}, got {given}"


def _must(message: str) -> str:
    """pydantic's sentence as ours."""
    for theirs, ours in (("Input should be", "must be"), ("Input should", "must"), ("String should", "must")):
        if message.startswith(theirs):
            return ours + message.removeprefix(theirs)
    return f"is wrong: {message}"


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _path(place: Sequence[str | int], table: Any) -> Iterator[str | int]:
    """The place as it stands in the file: pydantic's names the kind of a section, too, which is no key."""
    for number, part in enumerate(place):
        last = number == len(place) - 1
        if isinstance(table, list) and isinstance(part, int):
            table = table[part] if part < len(table) else None
        elif isinstance(table, dict) and part in table:
            table = table[part]
        elif not (last and isinstance(table, dict)) or part in _KIND_NAMES:
            continue  # pydantic names what it tried, too
        yield part


def _unknown(name: str, place: Sequence[str | int]) -> str:
    known = _fields(place[:-1])
    near = get_close_matches(str(place[-1]), known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
    return f"unknown field `{name}`{hint}"


def _fields(place: Sequence[str | int]) -> list[str]:
    """Fields of the section at a place."""
    types: list[Any] = [Recipe]
    for part in place:
        if isinstance(part, int):
            continue
        fields = [t.model_fields[part].annotation for t in types if part in t.model_fields]
        types = list(_models(fields)) if fields else [t for t in types if part in _kinds(t)]
    return list(types[0].model_fields) if len(types) == 1 else []


def _models(hints: Sequence[Any]) -> Iterator[type[BaseModel]]:
    """The models in annotations."""
    for hint in hints:
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            yield hint
        else:
            yield from _models(get_args(hint))


def _kinds(model: type[BaseModel]) -> tuple[str, ...]:
    field = model.model_fields.get("kind")
    return () if field is None else get_args(field.annotation)


def _all_kinds() -> set[str]:
    hints = [field.annotation for field in Recipe.model_fields.values()]
    return {kind for model in _models(hints) for kind in _kinds(model)}


_KIND_NAMES = _all_kinds()
