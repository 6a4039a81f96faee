"""How the threads of a pass wait for each other, settled before torch reads it from the environment."""

from __future__ import annotations

import os

BUSY = 0.7
"""Programs that ran on average in the last minute, above which another one is taking a core."""
CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS")
"""Variables with which a user has said it himself."""


def wait_politely_if_busy() -> None:
    """Let waiting threads sleep where other programs want the cores.

    By default they spin, which is fastest on cores of one's own. On shared ones a thread that spins takes the time
    slice that the thread it waits for would need, and a pass takes tens of times as long.
    """
    if any(name in os.environ for name in CHOICES) or not hasattr(os, "getloadavg"):
        return
    if os.getloadavg()[0] > BUSY:
        os.environ["OMP_WAIT_POLICY"] = "passive"
