"""What a service may use: memory, requests at once, patience. Free of torch, so that `--help` is instant."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from anyorder.errors import ParameterError

Priority = Literal["realtime", "normal", "batch"]


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Limits of a service, checked once."""

    kv_bytes: int = 1 << 30
    """Memory for keys and values, in bytes, taken at the start and never exceeded."""

    prefix_share: float = 0.25
    """Part of that memory, in [0, 1), that keeps finished prefixes for later requests; 0 keeps none."""

    prefix_unit: int = 16
    """Tokens that are kept and found together; rounded up to whole blocks of a block model."""

    max_running: int = 16
    """Requests that share a pass at most."""

    max_queued: int = 256
    """Requests that wait at most; further ones are refused with Overloaded."""

    pass_tokens: int = 8192
    """Tokens that a pass feeds at most besides prompts, over all requests: bounds the memory of logits."""

    prefill_tokens: int = 512
    """Prompt tokens that a pass computes at most, over all requests; longer prompts are computed in chunks.
    A model that reads the whole canvas both ways has no chunks."""

    normal_patience_s: float = 5.0
    """Seconds for which later `realtime` requests go before a `normal` one."""

    batch_patience_s: float = 60.0
    """Seconds for which later `realtime` requests go before a `batch` one."""

    restarts: int = 0
    """How often the engine is started anew after a failure without a single finished answer in between."""

    def __post_init__(self) -> None:
        faults = [(f.name, fault) for f in fields(self) for fault in [_fault(f.name, getattr(self, f.name))] if fault]
        if faults:
            raise ParameterError("; ".join(fault for _, fault in faults), param=faults[0][0])

    def patience(self, priority: Priority) -> float:
        """Seconds that a request of this priority lets others go first."""
        return {"realtime": 0.0, "normal": self.normal_patience_s, "batch": self.batch_patience_s}[priority]


_LEAST = {"kv_bytes": 1, "prefix_unit": 1, "max_running": 1, "max_queued": 1, "pass_tokens": 1, "prefill_tokens": 1}


def _fault(name: str, value: object) -> str | None:
    """What is wrong with one setting."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if name == "prefix_share":
        return None if number and 0 <= value < 1 else f"`{name}` must be in [0, 1), got {value!r}"  # type: ignore[operator]
    if name.endswith("_s"):
        return None if number and value >= 0 else f"`{name}` must be seconds, at least 0, got {value!r}"  # type: ignore[operator]
    least = _LEAST.get(name, 0)
    fits = number and isinstance(value, int) and value >= least
    return None if fits else f"`{name}` must be a whole number of at least {least}, got {value!r}"
