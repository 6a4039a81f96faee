"""pydantic's complaints about a recipe in our words: the field as it stands in the file, what was given and allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

from anyorder.training.recipe.spec import Recipe


def faults_of(errors: Sequence[Any], table: Any) -> list[str]:
    """One line for each.

    Args:
        errors: `ValidationError.errors()`.
        table: what was validated.
    """
    return list(dict.fromkeys(_fault(fault, table) for fault in _first(errors)))


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
