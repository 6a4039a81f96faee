"""Many requests at once: one engine, one thread, and a queue in front of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyorder.serving.metrics import Metrics as Metrics
    from anyorder.serving.metrics import ServiceStatus as ServiceStatus
    from anyorder.serving.service import Service as Service
    from anyorder.serving.settings import ServiceSettings as ServiceSettings
    from anyorder.serving.ticket import Computed as Computed
    from anyorder.serving.ticket import Ticket as Ticket
    from anyorder.serving.ticket import Timing as Timing
    from anyorder.serving.work import AnyWork as AnyWork
    from anyorder.serving.work import Priority as Priority
    from anyorder.serving.work import ScoreWork as ScoreWork
    from anyorder.serving.work import SeamWork as SeamWork
    from anyorder.serving.work import Work as Work

_HOMES = {
    "Metrics": "metrics", "ServiceStatus": "metrics", "Service": "service", "ServiceSettings": "settings",
    "AnyWork": "work", "Computed": "ticket", "Ticket": "ticket", "Timing": "ticket", "Priority": "work",
    "ScoreWork": "work", "SeamWork": "work", "Work": "work",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import on first use: the settings are read for `--help`, which does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'anyorder.serving' has no attribute {name!r}")
    return getattr(import_module(f"anyorder.serving.{_HOMES[name]}"), name)
