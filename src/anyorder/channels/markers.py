"""Markers in text that is still growing."""

from __future__ import annotations

from collections.abc import Sequence


def begun(text: str, markers: Sequence[str]) -> int:
    """Length of the longest end of `text` that is the beginning of a marker, and not all of it."""
    longest = max((len(marker) for marker in markers), default=1) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(marker.startswith(text[-size:]) for marker in markers):
            return size
    return 0
