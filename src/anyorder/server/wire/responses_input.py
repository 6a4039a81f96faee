"""The items of a `/v1/responses` input as messages of a chat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from anyorder.server.body import validate
from anyorder.server.errors import ApiError, unsupported
from anyorder.server.wire.common import Wire
from anyorder.server.wire.images import Detail, by_type


class Part(Wire):
    """A part of a content; of what an answer had besides its text, nothing is read."""

    type: Literal["input_text", "output_text", "text"]
    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


class ImageInput(Wire):
    """A part of a content that is an image."""

    type: Literal["input_image"]
    image_url: str
    detail: Detail = None
    file_id: None = None


_TEXT = ("input_text", "output_text", "text")
AnyPart = Annotated[
    Annotated[Part, Tag("text part")] | Annotated[ImageInput, Tag("image part")],
    Discriminator(
        by_type({**dict.fromkeys(_TEXT, "text part"), "input_image": "image part"}),
        custom_error_type="part_type",
        custom_error_message=f"a part needs a `type` that can be read here: {', '.join(_TEXT)} or input_image",
    ),
]


class Item(Wire):
    """What all items may have."""

    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class MessageItem(Item):
    """A message."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[AnyPart]
    phase: str | None = None


class CallItem(Item):
    """A call that the model made."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    namespace: None = None


class OutputItem(Item):
    """What a call came to."""

    type: Literal["function_call_output"]
    call_id: str
    output: str | list[Part]


class Thought(Wire):
    """A part of what the model thought."""

    type: Literal["reasoning_text"]
    text: str


class ReasoningItem(Item):
    """What the model thought before its next message or call; the chat template says whether it sees it again."""

    type: Literal["reasoning"]
    summary: list[Any] | None = None
    content: list[Thought] | None = None
    encrypted_content: str | None = None

    @property
    def text(self) -> str:
        """Its text."""
        return "\n".join(part.text for part in self.content or ())


KINDS: dict[str, type[MessageItem | CallItem | OutputItem | ReasoningItem]] = {
    "message": MessageItem,
    "function_call": CallItem,
    "function_call_output": OutputItem,
    "reasoning": ReasoningItem,
}
_MESSAGE = re.compile(r"messages\[(\d+)\](.*)")


@dataclass
class Conversation:
    """Messages of a chat, and where each of them comes from."""

    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    origins: list[str] = field(default_factory=list[str])
    """Path of the parameter in the request, one per message."""
    thought: str = ""
    """What was thought before the next message."""

    def add(self, message: dict[str, Any], origin: str) -> None:
        """Append a message."""
        if self.thought and message["role"] == "assistant":
            message["reasoning_content"] = self.thought
        self.thought = ""
        self.messages.append(message)
        self.origins.append(origin)

    def add_call(self, call: CallItem, origin: str) -> None:
        """A call belongs to the assistant's message before it, if there is one."""
        if self.thought or not self.messages or self.messages[-1]["role"] != "assistant":
            self.add({"role": "assistant", "content": None}, origin)
        made = {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        self.messages[-1].setdefault("tool_calls", []).append(made)

    def renamed(self, param: str) -> str:
        """The name of a chat's parameter in the request; of a message, that of its item."""
        if param == "messages":
            return "input"
        found = _MESSAGE.fullmatch(param)
        if found is None:
            return param
        origin = self.origins[int(found[1])]
        return origin if origin in ("input", "instructions") else origin + found[2]


def conversation(given: str | Sequence[dict[str, Any]], instructions: str | None) -> Conversation:
    """The chat that instructions and input come to.

    Raises:
        ApiError: an item is wrong, or of a kind that this server cannot read.
    """
    found = Conversation()
    if instructions:
        found.add({"role": "system", "content": instructions}, "instructions")
    if isinstance(given, str):
        found.add({"role": "user", "content": given}, "input")
        return found
    for number, raw in enumerate(given):
        origin = f"input[{number}]"
        match _item(raw, origin):
            case MessageItem() as item:
                found.add({"role": item.role, "content": _content(item.content)}, origin)
            case CallItem() as item:
                found.add_call(item, origin)
            case OutputItem() as item:
                found.add({"role": "tool", "tool_call_id": item.call_id, "content": _text(item.output)}, origin)
            case ReasoningItem() as item:
                found.thought = item.text
    return found


def _item(raw: dict[str, Any], origin: str) -> MessageItem | CallItem | OutputItem | ReasoningItem:
    kind = raw.get("type", "message")
    if not isinstance(kind, str) or kind not in KINDS:
        known = ", ".join(KINDS)
        raise unsupported(f"{origin}.type", f"`{origin}.type`: {str(kind)[:80]!r} cannot be read here; known: {known}")
    try:
        return validate(KINDS[kind], raw)
    except ApiError as error:
        message = error.message.replace(f"`{error.param}`", f"`{origin}.{error.param}`")
        raise ApiError(error.status, message, param=f"{origin}.{error.param}", code=error.code) from None


def _content(content: str | list[Part | ImageInput]) -> str | list[dict[str, Any]]:
    """As chats have it: part by part where there are images, so that errors name the right one."""
    if isinstance(content, str) or not any(isinstance(part, ImageInput) for part in content):
        return _text(content if isinstance(content, str) else [part for part in content if isinstance(part, Part)])
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Part)
        else {"type": "image_url", "image_url": part.image_url}
        for part in content
    ]


def _text(content: str | list[Part]) -> str:
    return content if isinstance(content, str) else "\n".join(part.text for part in content)
