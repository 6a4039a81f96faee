"""What a checkable task is: documents of one length, drawn at random, and a rule that says which are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, kw_only=True)
class Task:
    """A set of right documents.

    A document is one line of printable ASCII. It begins with the task's tag, which tells the model the task.
    """

    name: str
    tag: str
    """First character of every document; no other task has it."""
    length: int
    """Characters of a document, behind a shorter one follows end of text."""
    part: str
    """Regular expression of what can be asked about a document, a number or a name; the rest then decides it, or
    leaves little choice."""
    draw: Callable[[Random], str]
    """A right document, at random."""
    is_right: Callable[[str], bool]
    """Is a document right? True for every one that `draw` gives, and for nothing that it cannot give."""
