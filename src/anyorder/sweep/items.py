"""What is asked: prompts with what their answers are graded by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyorder.canvas import Hole
from anyorder.prompt import Prompt
from anyorder.sweep.answer import Answer


@dataclass(frozen=True)
class Gap:
    """A hole as long as this text, in the model's own tokens."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Item:
    """One prompt."""

    id: str
    prompt: Prompt | Sequence[str | Gap]
    text: str
    """The prompt for people."""
    references: tuple[str, ...] = ()
    """What a grader compares with; any of them will do."""


Grader = Callable[[Item, Answer, str | None], float]
"""Score in [0, 1] of an answer; the text is that of the first setting to the same prompt, None if it failed."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Prompts and how their answers are graded."""

    name: str
    items: Sequence[Item]
    grader: Grader
    grading: str
    """The grader in a word, for the page and to tell one sweep from another."""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """`DecodeParams` fields of the task, unless the user says otherwise."""
    against_first: bool = False
    """Does the grader read the text of the first setting?"""

    def digest(self) -> str:
        """Short name of the content, to tell one task from another; more items of the same kind do not change it."""
        content = json.dumps([self.name, self.grading, self.items[0].text, self.items[0].references])
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def shown(prompt: Prompt) -> str:
    """A prompt for people: the last turn of a chat, `░` for every slot of a hole."""
    if isinstance(prompt, str):
        return prompt
    parts = list(prompt)
    turns = [part["content"] for part in parts if isinstance(part, Mapping)]
    if turns:
        return turns[-1]
    return "".join("░" * part.length if isinstance(part, Hole) else str(part) for part in parts)
