"""A setting as a TOML file that `generate` and `serve` load."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anyorder.reporting.markup import plain
from anyorder.sweep.page import Report
from anyorder.sweep.summary import Row


def preset(row: Row, report: Report) -> str:
    """The file: what it was chosen for, then the decode parameters by the names of `serve --config`."""
    limits = report.limits
    about = [
        f"{report.subject} on {report.task.name}: {row.name}",
        f"quality {plain(row.quality)} on {row.answered + row.failed} prompts, graded by {report.task.grading}",
        f"within {limits.budget:g} of the best ({report.summary.best}) at {limits.confidence:.0%} confidence",
        f"tokens per forward {plain(row.tokens_per_forward)}",
    ]
    return "".join(f"# {' '.join(line.split())}\n" for line in about) + "\n[decoding]\n" + table(row.params)


def table(values: Mapping[str, Any]) -> str:
    """Lines of a TOML table; None is left out, as TOML has none."""
    return "".join(f"{name} = {_value(value)}\n" for name, value in values.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_value(other)}" for key, other in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)  # numbers, true and false, and strings are written as in JSON
