"""What was read from a source, and what was left out of it and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FileReport:
    """One file as it was read."""

    path: str
    num_bytes: int
    sha256: str


@dataclass
class SourceReport:
    """Counts of one source; they grow while it is read."""

    kind: str
    path: str
    total_bytes: int = 0
    """Of all its files; 0 for a stream."""
    read_bytes: int = 0
    files: list[FileReport] = field(default_factory=list[FileReport])
    records: int = 0
    """Lines, texts or files."""
    documents: int = 0
    tokens: int = 0
    trainable: int = 0
    """Tokens that may be masked and scored."""
    dropped: Counter[str] = field(default_factory=Counter[str])
    """Reason -> how many records or turns were left out."""
    ignored: Counter[str] = field(default_factory=Counter[str])
    """Field of a record that nothing reads -> in how many records it stands."""

    def drop(self, reason: str) -> None:
        self.dropped[reason] += 1


Watch = Callable[[SourceReport], None]
"""Called after every record, for a progress bar."""
