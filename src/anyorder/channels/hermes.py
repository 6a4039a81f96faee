"""Calls as JSON: `{"name": ..., "arguments": {...}}`, or a list of them, as Hermes, Qwen and SmolLM2 write them."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def read(body: str) -> list[tuple[str, dict[str, Any]]] | None:
    """Name and arguments of every call; None if the text is anything else."""
    try:
        data = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    calls = [_call(item) for item in (data if isinstance(data, list) else [data])]
    found = [call for call in calls if call is not None]
    return found if len(found) == len(calls) else None


def _call(item: object) -> tuple[str, dict[str, Any]] | None:
    if not isinstance(item, dict) or set(item) - {"name", "arguments", "id", "type"}:
        return None
    name, arguments = item.get("name"), item.get("arguments", {})
    return (name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def quoted(body: str) -> bool:
    """Does this beginning of a JSON text end inside a string?"""
    inside = escaped = False
    for letter in body:
        if escaped:
            escaped = False
        elif inside and letter == "\\":
            escaped = True
        elif letter == '"':
            inside = not inside
    return inside
