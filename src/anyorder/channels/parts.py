"""The parts of an answer, in the order in which they come, and what they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of the reasoning channel."""

    text: str


@dataclass(frozen=True, slots=True)
class Content:
    """Text of the answer itself."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """A tool is called; its arguments follow."""

    index: int
    """Among the calls of the answer."""
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """Arguments of the call `index`: JSON, or a part of it."""

    index: int
    text: str


Part = Reasoning | Content | CallBegun | CallArguments


@dataclass
class ToolCall:
    """A call as it stands."""

    id: str
    name: str
    arguments: str = ""
    """A JSON object."""


@dataclass
class Spoken:
    """All parts of an answer so far, by channel."""

    reasoning: str = ""
    content: str = ""
    calls: list[ToolCall] = field(default_factory=list[ToolCall])

    def add(self, parts: Sequence[Part]) -> None:
        """Take the next parts."""
        for part in parts:
            match part:
                case Reasoning():
                    self.reasoning += part.text
                case Content():
                    self.content += part.text
                case CallBegun():
                    self.calls.append(ToolCall(part.id, part.name))
                case CallArguments():
                    self.calls[part.index].arguments += part.text
