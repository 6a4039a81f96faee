"""`/v1/responses`: the request, checked, and as the chat that it is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from anyorder.server.errors import unsupported
from anyorder.server.wire.common import NEUTRAL, Neutral, StreamOptions, Wire, check_neutral
from anyorder.server.wire.messages import checked_parts

LOGPROBS = "message.output_text.logprobs"
INCLUDABLE = (LOGPROBS, "reasoning.encrypted_content")
"""What `include` may ask for; reasoning is not encrypted here, so the second adds nothing."""
MAX_METADATA, MAX_KEY, MAX_VALUE = 16, 64, 512

_STORE = "this server stores nothing; send the whole conversation as `input`"
REFUSED: dict[str, Neutral] = {
    "previous_response_id": Neutral((), _STORE),
    "conversation": Neutral((), _STORE),
    "store": Neutral((False,), _STORE),
    "background": Neutral((False,), "this server answers while the client waits"),
    "prompt": Neutral((), "this server keeps no prompt templates"),
    "truncation": Neutral(("disabled",), "an input that does not fit is refused, not cut"),
    "max_tool_calls": Neutral((), "there are no built-in tools to count"),
    "context_management": Neutral(([],), "this server compacts nothing"),
    **{name: NEUTRAL[name] for name in ("moderation", "service_tier", "frequency_penalty", "presence_penalty")},
}
"""Parameters that are refused unless they ask for nothing."""
LABELS = ("user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")
"""Parameters that change nothing and are echoed."""
EXTENSIONS = ("seed", "top_k", "stop", "logit_bias", "ignore_eos", "realtime", "diffusion", "thinking_budget")
"""Parameters of chats that are taken over as they are."""


class TextConfig(Wire):
    """`text` of a request."""

    format: dict[str, Any] | None = None
    verbosity: Literal["medium"] | None = None


class ReasoningConfig(Wire):
    """`reasoning` of a request."""

    effort: str | None = None
    summary: Literal["auto"] | None = None
    """A summary where the model writes one; none does."""


class ResponsesRequest(Wire):
    """An input to answer; what `REFUSED` and `LABELS` name has been taken out of it."""

    model: str
    input: Annotated[
        str | list[dict[str, Any]], Field(min_length=1, max_length=8 << 20), BeforeValidator(checked_parts)
    ]
    instructions: str | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    include: list[str] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    metadata: dict[str, str] | None = None
    seed: Any = None
    top_k: Any = None
    stop: Any = None
    logit_bias: Any = None
    ignore_eos: Any = None
    realtime: Any = None
    diffusion: Any = None
    thinking_budget: Any = None

    @property
    def with_logprobs(self) -> bool:
        """True if log-probabilities are wanted."""
        return LOGPROBS in (self.include or ())

    def check(self) -> None:
        """Refuse what types alone do not show.

        Raises:
            ApiError: with the parameter's name.
        """
        for name in self.include or ():
            if name not in INCLUDABLE:
                raise unsupported(
                    "include", f"`include`: {name[:80]!r} is not made here; known: {', '.join(INCLUDABLE)}"
                )
        if self.text is not None and self.text.format not in (None, {"type": "text"}):
            raise unsupported(
                "text.format", "`text.format`: structure is not guaranteed yet, and not pretended; use text"
            )
        if self.stream_options is not None and self.stream_options.include_usage:
            raise unsupported("stream_options", "`stream_options`: the last event has the usage anyway; leave it out")
        data = self.metadata or {}
        if len(data) > MAX_METADATA or any(len(k) > MAX_KEY or len(v) > MAX_VALUE for k, v in data.items()):
            limits = f"{MAX_METADATA} pairs of up to {MAX_KEY} and {MAX_VALUE} characters"
            raise unsupported("metadata", f"`metadata` takes {limits}")

    def functions(self) -> dict[str, Any]:
        """Tools and their choice as a chat has them.

        Raises:
            ApiError: a tool that the server would have to run, or a choice among such.
        """
        chat: dict[str, Any] = {}
        if self.tools is not None:
            chat["tools"] = [_function(number, tool) for number, tool in enumerate(self.tools)]
        if isinstance(self.tool_choice, dict):
            if self.tool_choice.get("type") != "function":
                raise unsupported("tool_choice", "`tool_choice` names a function, or is auto, none or required")
            named = {name: value for name, value in self.tool_choice.items() if name != "type"}
            chat["tool_choice"] = {"type": "function", "function": named}
        elif self.tool_choice is not None:
            chat["tool_choice"] = self.tool_choice
        return chat

    def sampling(self) -> dict[str, Any]:
        """The chat's parameters besides its messages and tools."""
        chat: dict[str, Any] = {
            "model": self.model,
            "max_completion_tokens": self.max_output_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "stream": self.stream,
            "parallel_tool_calls": self.parallel_tool_calls,
            "reasoning_effort": self.reasoning.effort if self.reasoning else None,
            "logprobs": self.with_logprobs or None,
            "top_logprobs": self.top_logprobs,
            **{name: getattr(self, name) for name in EXTENSIONS},
        }
        return {name: value for name, value in chat.items() if value is not None}


def separated(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The request without labels and parameters that ask for nothing, and its labels.

    Raises:
        ApiError: one of them asks for something.
    """
    kept, labels = dict[str, Any](), dict[str, Any]()
    for name, value in data.items():
        if value is None:
            continue
        if name in LABELS:
            labels[name] = value
        elif name in REFUSED:
            check_neutral(name, value, REFUSED[name])
        else:
            kept[name] = value
    return kept, labels


def _function(number: int, tool: dict[str, Any]) -> dict[str, Any]:
    kind = tool.get("type")
    if kind != "function":
        message = (
            f"`tools[{number}]`: {str(kind)[:80]!r} would run at the server; tools here are functions of the client"
        )
        raise unsupported(f"tools[{number}].type", message)
    fields = {name: value for name, value in tool.items() if name != "type" and value is not None}
    return {"type": "function", "function": fields}
