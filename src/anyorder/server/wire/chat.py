"""`/v1/chat/completions`: the request, the answer, the chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from anyorder.scoring import ScoreMode
from anyorder.server.choice import Choice
from anyorder.server.errors import bad_request, unsupported
from anyorder.server.streams.answer import Delta
from anyorder.server.streams.tokens import Token
from anyorder.server.wire.common import Limited, Wire
from anyorder.server.wire.logprobs import LogprobsMode, as_chat, checked_top, score_mode

PREFIX = "chatcmpl"


class TextPart(Wire):
    """A part of a message; only text is read."""

    type: Literal["text"]
    text: str


class ChatMessage(Wire):
    """One message; what clients echo back from an answer may be there as long as it is empty."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[TextPart] | None = None
    name: None = None
    refusal: None = None
    tool_calls: Annotated[list[Any], Field(max_length=0)] | None = None
    tool_call_id: None = None
    function_call: None = None
    audio: None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None


class ChatRequest(Limited):
    """A chat to answer."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1024)]
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    logprobs_mode: LogprobsMode | None = None
    """What the log-probabilities are of; None: of the pass that committed a token."""

    def plain_messages(self) -> list[dict[str, str]]:
        """Role and text of every message."""
        return [_plain(number, message) for number, message in enumerate(self.messages)]

    @property
    def score_mode(self) -> ScoreMode | None:
        """How the finished answer is to be scored; None: not at all."""
        return score_mode(self.logprobs_mode, wanted=self.logprobs, streams=self.format is not None)

    @property
    def top(self) -> int:
        """How many alternatives to list per token."""
        return checked_top(self.top_logprobs, "top_logprobs", wanted=self.logprobs)


def _plain(number: int, message: ChatMessage) -> dict[str, str]:
    if message.role in ("tool", "function"):
        raise unsupported(f"messages[{number}].role", f"role {message.role!r}: this server does not parse tools yet")
    if message.content is None:
        raise bad_request(f"messages[{number}].content is missing", param=f"messages[{number}].content")
    parts = message.content if isinstance(message.content, list) else None
    text = message.content if parts is None else "\n".join(part.text for part in parts)
    return {"role": "system" if message.role == "developer" else message.role, "content": str(text)}


@dataclass(frozen=True)
class ChatVoice:
    """How a chat answers."""

    head: dict[str, Any]
    logprobs: bool = False
    top: int = 0
    mode: LogprobsMode = "commit_pass"
    """What the log-probabilities are of."""

    def reply(self, choices: Sequence[Choice], usage: dict[str, Any]) -> dict[str, Any]:
        """The whole answer."""
        parts = [
            {
                "index": choice.index,
                "message": {"role": "assistant", "content": choice.answer.text, "refusal": None, "tool_calls": None},
                "finish_reason": choice.answer.finish_reason,
                "logprobs": self._logs(choice.tokens),
            }
            for choice in choices
        ]
        return {**self.head, "object": "chat.completion", "choices": parts, "usage": usage, "warning": None}

    def chunk(self, choice: Choice, delta: Delta, *, opens: bool) -> dict[str, Any]:
        """One piece of an answer; the first one names the role, and comes with text or the end."""
        content: dict[str, Any] = {"role": "assistant"} if opens else {}
        if delta.text or opens:
            content["content"] = delta.text
        return self._chunk(choice.index, content, delta.finish_reason, self._logs(delta.tokens))

    def snapshot(self, choice: Choice, text: str, progress: float) -> dict[str, Any]:
        """The whole answer as it stands."""
        content = {"role": "assistant", "content": text, "tool_calls": []}
        meta = {"diffusion_content": True, "diffusion_progress": progress}
        chunk = self._chunk(choice.index, content, choice.answer.finish_reason, None)
        return {**chunk, "diffusion_meta": meta, "reasoning_summary": None}

    def last_chunk(self, usage: dict[str, Any]) -> dict[str, Any]:
        """Nothing but the usage."""
        return {**self.head, "object": "chat.completion.chunk", "choices": [], "usage": usage}

    def _chunk(self, index: int, delta: dict[str, Any], reason: str | None, logs: Any) -> dict[str, Any]:
        part = {"index": index, "delta": delta, "finish_reason": reason, "logprobs": logs}
        return {**self.head, "object": "chat.completion.chunk", "choices": [part]}

    def _logs(self, tokens: Sequence[Token]) -> dict[str, Any] | None:
        return as_chat(tokens, self.top, self.mode) if self.logprobs else None
