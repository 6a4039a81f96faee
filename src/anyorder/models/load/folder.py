"""The small files of a checkpoint folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anyorder.errors import ModelError


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a checkpoint folder.

    Raises:
        ModelError: the file is missing or damaged.
    """
    path = folder / "config.json"
    if not path.exists():
        raise ModelError(f"{folder} has no config.json, so it is no checkpoint folder")
    return read_table(path)


def read_table(path: Path) -> dict[str, Any]:
    """A JSON object; {} when the file does not exist."""
    if not path.exists():
        return {}
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(table, dict):
        raise ModelError(f"{path} holds no JSON object")
    return table
