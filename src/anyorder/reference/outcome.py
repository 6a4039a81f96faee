"""How a check ends: it returns what it compared, or raises what differs."""

from __future__ import annotations


class Mismatch(Exception):
    """A recorded case and ours differ; the message says where."""


def expect(condition: bool, difference: str) -> None:
    """Raise `Mismatch` unless the condition holds."""
    if not condition:
        raise Mismatch(difference)
