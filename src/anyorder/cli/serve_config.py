"""The configuration of a server: a TOML file, flags before it, and keys from a file of their own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from anyorder.cli.flags import LOAD_FLAGS
from anyorder.errors import ParameterError
from anyorder.params import DecodeParams, did_you_mean
from anyorder.server.keys import ApiKey
from anyorder.server.settings import ServerSettings
from anyorder.serving.settings import ServiceSettings

PARTS: dict[str, tuple[str, ...]] = {
    "server": tuple(field.name for field in fields(ServerSettings) if field.name != "keys"),
    "engine": tuple(field.name for field in fields(ServiceSettings)),
    "model": tuple(flag.name for flag in LOAD_FLAGS),
    "decoding": tuple(field.name for field in fields(DecodeParams)),
}
"""Table of the file -> what may stand in it."""

Config = dict[str, dict[str, Any]]


def read_config(path: Path | None) -> Config:
    """The tables of a configuration file; no file, no settings.

    Raises:
        ParameterError: it is no TOML, or a name in it is not known.
        OSError: it cannot be read.
    """
    config: Config = {part: {} for part in PARTS}
    if path is None:
        return config
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ParameterError(f"{path} is no TOML: {error}", param="config") from None
    keys = found.pop("keys", [])
    for part, table in found.items():
        if part not in PARTS:
            raise ParameterError(f"{path}: unknown table {part!r}{did_you_mean(part, list(PARTS))}", param="config")
        if not isinstance(table, dict):
            raise ParameterError(f"{path}: {part!r} must be a table, got {table!r}", param="config")
        config[part] = {name: _value(path, part, name, value) for name, value in table.items()}
    if not isinstance(keys, list) or not all(isinstance(table, dict) for table in keys):
        raise ParameterError(f"{path}: `keys` must be tables, each headed [[keys]]", param="keys")
    if keys:
        config["server"]["keys"] = _keys(path, keys)
    return config


def _keys(path: Path, tables: list[dict[str, Any]]) -> tuple[ApiKey, ...]:
    """The `[[keys]]`."""
    known = [field.name for field in fields(ApiKey)]
    for name in (name for table in tables for name in table):
        if name not in known:
            raise ParameterError(f"{path}: unknown {name!r} in [[keys]]{did_you_mean(name, known)}", param=name)
    return tuple(ApiKey(**table) for table in tables)


def _value(path: Path, part: str, name: str, value: Any) -> Any:
    if name not in PARTS[part]:
        raise ParameterError(f"{path}: unknown {name!r} in [{part}]{did_you_mean(name, list(PARTS[part]))}", param=name)
    if part == "decoding" and name in ("forced", "logit_bias") and isinstance(value, dict):
        return {int(key) if key.isdigit() else key: other for key, other in value.items()}
    return tuple(value) if isinstance(value, list) else value


def merged(config: Config, flags: Mapping[str, Mapping[str, Any]], keys: Path | None) -> Config:
    """The file's settings, the flags' in place of them, and the keys of a file in addition.

    Raises:
        ParameterError: the file of keys holds none.
    """
    config = {part: {**config[part], **flags.get(part, {})} for part in PARTS}
    server = config["server"]
    if "cors_origins" in server:
        server["cors_origins"] = tuple(server["cors_origins"])
    if keys is not None:
        found = tuple(line.strip() for line in keys.read_text("utf-8").splitlines() if line.strip())
        if not found:
            raise ParameterError(f"{keys} holds no key; write one per line", param="api_keys_file")
        server["api_keys"] = (*server.get("api_keys", ()), *found)
    return config
