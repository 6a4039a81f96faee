"""`/v1/edit/completions` and `/v1/apply/completions`: the request, the answer, the chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from anyorder.server.choice import Choice
from anyorder.server.streams.answer import Delta
from anyorder.server.wire.common import Limited, Wire
from anyorder.server.wire.mercury import MAX_STOPS
from anyorder.server.wire.messages import TextPart

OPENING, CLOSING = "```\n", "\n```"
"""What editors expect around the new text of a region."""


class EditMessage(Wire):
    """The one message."""

    role: Literal["user"]
    content: str | list[TextPart]

    @property
    def text(self) -> str:
        """Its text."""
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


class EditRequest(Limited):
    """A region to rewrite, or an update to merge."""

    max_stops = MAX_STOPS

    messages: Annotated[list[EditMessage], Field(min_length=1, max_length=1)]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None


@dataclass(frozen=True)
class EditVoice:
    """How edits are answered: the new text of the region, in a fence or bare, ending as the old one does.

    An answer that was cut off (`length`) ends where it was cut, without the closing fence.
    """

    head: dict[str, Any]
    name: str
    """The `object` of an answer."""
    ends_line: bool
    fenced: bool

    def reply(self, choices: Sequence[Choice], usage: dict[str, Any]) -> dict[str, Any]:
        """The whole answer; a message has no field that strict clients do not know (Zed refuses null tool calls)."""
        parts = [
            {
                "index": choice.index,
                "message": {"role": "assistant", "content": self._whole(choice)},
                "finish_reason": choice.answer.finish_reason,
            }
            for choice in choices
        ]
        return {**self.head, "object": self.name, "choices": parts, "usage": usage}

    def chunk(self, choice: Choice, delta: Delta, *, opens: bool) -> dict[str, Any]:
        """One piece: a last line break is held back until it is known whether the text goes on behind it."""
        text = choice.answer.text
        before = "" if opens else self._shown(text[: len(text) - len(delta.text)])
        after = self._whole(choice) if delta.finish_reason else self._shown(text)
        role = {"role": "assistant"} if opens else {}
        return self._chunk(choice.index, {**role, "content": after[len(before) :]}, delta.finish_reason)

    def snapshot(self, choice: Choice, text: str, progress: float, delta: Delta) -> dict[str, Any]:
        """The whole answer as it stands."""
        reason = choice.answer.finish_reason
        content = self._whole(choice) if reason else self._shown(text)
        meta = {"diffusion_content": True, "diffusion_progress": progress}
        chunk = self._chunk(choice.index, {"role": "assistant", "content": content}, reason)
        return {**chunk, "diffusion_meta": meta}

    def last_chunk(self, usage: dict[str, Any]) -> dict[str, Any]:
        """Nothing but the usage."""
        return {**self.head, "object": f"{self.name}.chunk", "choices": [], "usage": usage}

    def _chunk(self, index: int, delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
        part = {"index": index, "delta": delta, "finish_reason": reason}
        return {**self.head, "object": f"{self.name}.chunk", "choices": [part]}

    def _shown(self, text: str) -> str:
        """Of a text that may go on, what will not change."""
        return (OPENING if self.fenced else "") + text.removesuffix("\n")

    def _whole(self, choice: Choice) -> str:
        answer = choice.answer
        if answer.finish_reason == "length":
            return (OPENING if self.fenced else "") + answer.text
        return self._shown(answer.text) + ("\n" if self.ends_line else "") + (CLOSING if self.fenced else "")
