"""What one prompt came to under one setting."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A text and what it took; None where whoever answered does not say."""

    text: str
    """The answer; around filled holes also the prompt."""
    tokens: int | None
    """With the stop token."""
    passes: int | None
    """Forward passes (NFE)."""
    first_s: float
    """Until the first text was decided."""
    last_s: float
    memory_bytes: int | None
    """Most that was held for this answer: its keys and values, and on a GPU all that was allocated beside the
    weights."""
    worst_gap: float | None = None
    """Nats that the worst pass lost by drawing its slots apart (`anyorder.seams`); None: not measured."""
    seams: tuple[str, ...] = ()
    """Pairs of one pass that contradict each other most, in words."""
    retries: tuple[str, ...] = ()
    """Why earlier tries of the same request failed."""
    ids: tuple[int, ...] = field(default=(), repr=False)
    """Prompt and answer, where they are known; not recorded."""

    def as_record(self, score: float) -> dict[str, Any]:
        """JSON-able, with the score."""
        fields = asdict(self)
        del fields["ids"]
        return {**fields, "score": score}


class Failed(Exception):
    """A prompt was not answered, however often it was tried.

    Args:
        reason: in a few words.
        retries: why the tries before failed.
    """

    def __init__(self, reason: str, retries: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.retries = retries

    def as_record(self) -> dict[str, Any]:
        """JSON-able: a failed answer scores 0, so that no mean looks better for it."""
        return {"failed": str(self), "retries": list(self.retries), "score": 0.0}
