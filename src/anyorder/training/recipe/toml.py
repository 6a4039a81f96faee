"""Tables as TOML; the standard library only reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def dumped(table: Mapping[str, Any]) -> str:
    """The TOML of nested tables of texts, numbers, truth values and lists."""
    return "\n".join(_lines(table, "")) + "\n"


def _lines(table: Mapping[str, Any], name: str) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not _is_section(value)}
    for key, value in plain.items():
        yield f"{_key(key)} = {_value(value)}"
    for key, value in table.items():
        if not _is_section(value):
            continue
        path = f"{name}.{_key(key)}" if name else _key(key)
        for part in value if isinstance(value, list) else (value,):
            yield ""
            yield f"[[{path}]]" if isinstance(value, list) else f"[{path}]"
            yield from _lines(part, path)


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)
    )


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {_value(part)}' for key, part in value.items())}}}"
    return _text(value)


def _text(value: Any) -> str:
    """JSON's texts, numbers and truth values are TOML's."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
