"""Requests that no endpoint saw (no key, wrong host, no such path, no HTTP): in log and figures all the same."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

from anyorder.server.errors import ApiError
from anyorder.server.metrics import ServerMetrics

log = logging.getLogger("anyorder.server")
NOWHERE = "none"
"""What stands for the surface: paths are the client's words, and there would be no end of them."""


@dataclass(frozen=True)
class TurnedAway:
    """Writes what became of such a request, once for each."""

    metrics: ServerMetrics

    def __call__(self, error: ApiError, request_id: str | None = None) -> None:
        """Note a refusal.

        Args:
            request_id: None where it came to none.
        """
        self.metrics.ended(NOWHERE, error.status, error.code)
        line: dict[str, Any] = {"surface": NOWHERE, "status": error.status, "error": error.code}
        log.info(json.dumps({"request_id": request_id, **line} if request_id else line))
