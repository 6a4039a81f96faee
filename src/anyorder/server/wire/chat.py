"""`/v1/chat/completions`: the request, the answer, the chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from anyorder.channels.parts import CallArguments, CallBegun, Content, Part, Reasoning, Spoken
from anyorder.scoring import ScoreMode
from anyorder.server.choice import Choice
from anyorder.server.effort import Level
from anyorder.server.streams.answer import Answer, Delta
from anyorder.server.streams.tokens import Token
from anyorder.server.wire.logprobs import LogprobsMode, as_chat, checked_top, score_mode
from anyorder.server.wire.messages import ChatMessage, checked_parts
from anyorder.server.wire.tools import WithTools

PREFIX = "chatcmpl"


READ = ("tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "chat_template_kwargs")
"""Parameters that only chats read."""


class ChatRequest(WithTools):
    """A chat to answer."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1024), BeforeValidator(checked_parts)]
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    logprobs_mode: LogprobsMode | None = None
    """What the log-probabilities are of; None: of the pass that committed a token."""
    reasoning_effort: Level | None = None
    thinking_budget: Annotated[int, Field(ge=0)] | None = None
    """Most tokens of reasoning, its markers included; None: what the effort allows."""
    chat_template_kwargs: dict[str, Any] | None = None

    @property
    def score_mode(self) -> ScoreMode | None:
        """How the finished answer is to be scored; None: not at all."""
        return score_mode(self.logprobs_mode, wanted=self.logprobs, streams=self.format is not None)

    @property
    def top(self) -> int:
        """How many alternatives to list per token."""
        return checked_top(self.top_logprobs, "top_logprobs", wanted=self.logprobs)


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
                "message": _message(choice.answer.spoken),
                "finish_reason": choice.answer.finish_reason,
                "logprobs": self._logs(choice.tokens),
            }
            for choice in choices
        ]
        return {**self.head, "object": "chat.completion", "choices": parts, "usage": usage}

    def chunk(self, choice: Choice, delta: Delta, *, opens: bool) -> dict[str, Any]:
        """One piece of an answer; the first one names the role, and comes with something said or the end."""
        content: dict[str, Any] = {"role": "assistant"} if opens else {}
        said = _said(delta.parts)
        if opens and not said:
            content["content"] = ""
        return self._chunk(choice.index, content | said, delta.finish_reason, self._logs(delta.tokens))

    def snapshot(self, choice: Choice, text: str, progress: float, delta: Delta) -> dict[str, Any]:
        """The whole answer as it stands; calls are not part of the snapshot, each is told once, when it is sure."""
        answer = choice.answer
        spoken = answer.spoken if answer.finish_reason else _as_it_stands(answer, text)
        calls = _said([part for part in delta.parts if isinstance(part, CallBegun | CallArguments)])
        content = {
            "role": "assistant",
            "content": spoken.content,
            "tool_calls": [],
            **_thought(spoken.reasoning),
            **calls,
        }
        meta = {"diffusion_content": True, "diffusion_progress": progress}
        chunk = self._chunk(choice.index, content, answer.finish_reason, None)
        return {**chunk, "diffusion_meta": meta, "reasoning_summary": None}

    def last_chunk(self, usage: dict[str, Any]) -> dict[str, Any]:
        """Nothing but the usage."""
        return {**self.head, "object": "chat.completion.chunk", "choices": [], "usage": usage}

    def _chunk(self, index: int, delta: dict[str, Any], reason: str | None, logs: Any) -> dict[str, Any]:
        part = {"index": index, "delta": delta, "finish_reason": reason, "logprobs": logs}
        return {**self.head, "object": "chat.completion.chunk", "choices": [part]}

    def _logs(self, tokens: Sequence[Token]) -> dict[str, Any] | None:
        return as_chat(tokens, self.top, self.mode) if self.logprobs else None


def _message(spoken: Spoken) -> dict[str, Any]:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in spoken.calls
    ]
    content = spoken.content or (None if calls or spoken.reasoning else "")
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None, "annotations": []}
    called = {"tool_calls": calls} if calls else {}  # by OpenAI's schema a list or not there, and never null
    return {**message, **called, **_thought(spoken.reasoning)}


def _thought(text: str) -> dict[str, Any]:
    """Reasoning under both names that clients look for; nothing if there is none."""
    return {"reasoning_content": text, "reasoning": text} if text else {}


def _said(parts: Sequence[Part]) -> dict[str, Any]:
    """Fields of a delta that say these parts."""
    said: dict[str, Any] = {}
    for part in parts:
        match part:
            case Content():
                said["content"] = said.get("content", "") + part.text
            case Reasoning():
                said |= _thought(said.get("reasoning", "") + part.text)
            case CallBegun():
                function = {"name": part.name, "arguments": ""}
                call = {"index": part.index, "id": part.id, "type": "function", "function": function}
                said.setdefault("tool_calls", []).append(call)
            case CallArguments():
                calls = said.setdefault("tool_calls", [])
                if calls and calls[-1]["index"] == part.index:
                    calls[-1]["function"]["arguments"] += part.text
                else:
                    calls.append({"index": part.index, "function": {"arguments": part.text}})
    return said


def _as_it_stands(answer: Answer, text: str) -> Spoken:
    """Channels of a snapshot; a call that is not complete is not shown."""
    spoken = Spoken()
    if answer.channels is None:
        spoken.content = text
    else:
        spoken.add(answer.channels.fresh().push(text))
    return spoken
