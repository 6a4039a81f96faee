"""Settings from a TOML file: `[decoding]` for all, `[grid]` of lists, `[[setting]]` spelled out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from anyorder.errors import ParameterError
from anyorder.params import check_names, did_you_mean
from anyorder.sweep.settings import grid

TABLES = ("decoding", "grid", "setting")


def parse(text: str, where: str, *, param: str = "settings") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Parameters of all settings, and those of each.

    Args:
        where: name of the file, for messages.
        param: what named the file.
    Raises:
        ParameterError: it is no TOML, or something in it is not known.
    """
    try:
        found = tomllib.loads(text)
    except ValueError as error:
        raise ParameterError(f"{where} is no TOML: {error}", param=param) from None
    for name in found:
        if name not in TABLES:
            raise ParameterError(f"{where}: unknown table {name!r}{did_you_mean(name, list(TABLES))}", param=param)
    common, axes, spelled = found.get("decoding", {}), found.get("grid", {}), found.get("setting", [])
    if not isinstance(common, dict) or not isinstance(axes, dict) or not isinstance(spelled, list):
        raise ParameterError(f"{where}: [decoding] and [grid] are tables, [[setting]] a list of them", param=param)
    if not all(isinstance(values, list) for values in axes.values()):
        raise ParameterError(f"{where}: [grid] holds lists; write one value as [0.9]", param=param)
    check_names(common)
    ways = grid(axes) if axes else []
    ways += [_spelled(way, where, param) for way in spelled]
    return {name: _value(value) for name, value in common.items()}, ways


def _spelled(way: object, where: str, param: str) -> dict[str, Any]:
    if not isinstance(way, dict):
        raise ParameterError(f"{where}: [[setting]] is a table, got {way!r}", param=param)
    check_names({name: value for name, value in way.items() if name not in ("name", "request")})
    if not isinstance(way.get("request", {}), Mapping):
        raise ParameterError(f"{where}: `request` of a setting is a table, got {way['request']!r}", param=param)
    return {name: value if name == "request" else _value(value) for name, value in way.items()}


def _value(value: Any) -> Any:
    """TOML has no tuples, and the keys of its tables are texts."""
    if isinstance(value, dict):
        return {int(key) if key.isdigit() else key: other for key, other in value.items()}
    return tuple(value) if isinstance(value, list) else value
