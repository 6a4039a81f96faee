"""Messages of a chat: as clients send them, and as a chat template reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from anyorder.server.body import parse_object
from anyorder.server.errors import ApiError, bad_request, unsupported
from anyorder.server.wire.common import Wire
from anyorder.server.wire.images import ImagePart, by_type

MAX_PARTS = 4096
"""Of all contents of a request: checking hundreds of thousands would hold up everybody's streams."""
OWNERS = {
    "tool_calls": "assistant",
    "reasoning_content": "assistant",
    "reasoning": "assistant",
    "provider_specific_fields": "assistant",
    "tool_call_id": "tool",
    "name": "tool",
}
"""Fields of a message that only one role has."""


class TextPart(Wire):
    """A part of a message that is text."""

    type: Literal["text"]
    text: str


AnyPart = Annotated[
    Annotated[TextPart, Tag("text part")] | Annotated[ImagePart, Tag("image part")],
    Discriminator(
        by_type({"text": "text part", "image_url": "image part"}),
        custom_error_type="part_type",
        custom_error_message="a part needs a `type` that can be read here: text or image_url",
    ),
]


class CalledFunction(Wire):
    """What was called."""

    name: str
    arguments: str


class ToolCallMade(Wire):
    """A call in an earlier answer."""

    id: Annotated[str, Field(min_length=1, max_length=256)]
    type: Literal["function"] = "function"
    index: int | None = None
    function: CalledFunction


class ChatMessage(Wire):
    """One message; what clients echo back from an answer may be there as long as it is empty."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[AnyPart] | None = None
    name: str | None = None
    refusal: None = None
    tool_calls: list[ToolCallMade] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    function_call: None = None
    audio: None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    provider_specific_fields: dict[str, Any] | None = None
    """LiteLLM's copy of what the answer had besides OpenAI's fields; it says nothing new."""


def checked_parts(messages: object) -> object:
    """What is to become the messages of a chat, or the items of an input, before anything else of it is looked at.

    Raises:
        ValueError: its contents have too many parts.
    """
    said = [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
    contents = [message.get(name) for message in said for name in ("content", "output")]
    count = sum(len(content) for content in contents if isinstance(content, list))
    if count > MAX_PARTS:
        raise ValueError(f"contents have {count} parts in all; this server reads at most {MAX_PARTS} of a request")
    return messages


def image_params(messages: Sequence[ChatMessage]) -> list[str]:
    """Where images stand in a chat, as errors name it."""
    return [
        f"messages[{number}].content[{place}]"
        for number, message in enumerate(messages)
        if isinstance(message.content, list)
        for place, part in enumerate(message.content)
        if isinstance(part, ImagePart)
    ]


def template_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """The messages as a chat template reads them: arguments as objects, results with the name of their tool, contents
    as texts but for those with images, which are lists of parts.

    Raises:
        ApiError: a message has what its role has not, or answers a call that nobody made; `param` says which.
    """
    made: dict[str, str] = {}
    read: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        _check_fields(number, message)
        plain: dict[str, Any] = {"role": _role(message), "content": _content(number, message)}
        if message.tool_calls:
            plain["tool_calls"] = [_call(number, place, call) for place, call in enumerate(message.tool_calls)]
            made |= {call.id: call.function.name for call in message.tool_calls}
        thought = message.reasoning_content or message.reasoning
        if thought:
            plain["reasoning_content"] = thought
        if message.role == "tool":
            plain |= _answered(number, message, made)
        read.append(plain)
    return read


def _check_fields(number: int, message: ChatMessage) -> None:
    where, role = f"messages[{number}]", message.role
    if role == "function":
        raise unsupported(f"{where}.role", "role 'function' is the old way; send the result with role 'tool'")
    for name, owner in OWNERS.items():
        if getattr(message, name) and role != owner:
            raise bad_request(f"`{where}.{name}` belongs to role {owner!r}, not {role!r}", param=f"{where}.{name}")


def _role(message: ChatMessage) -> str:
    return "system" if message.role == "developer" else message.role


def _content(number: int, message: ChatMessage) -> str | list[dict[str, Any]]:
    where = f"messages[{number}].content"
    if message.content is None and not message.tool_calls:
        raise bad_request(f"{where} is missing", param=where)
    content = message.content or ""
    if isinstance(content, str):
        return content
    texts = [part.text for part in content if isinstance(part, TextPart)]
    if len(texts) == len(content):
        return "\n".join(texts)
    return [_part(message.role, part, f"{where}[{place}]") for place, part in enumerate(content)]


def _part(role: str, part: TextPart | ImagePart, where: str) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if role != "user":
        raise unsupported(where, f"`{where}`: images are read in messages of role 'user', not {role!r}")
    return {"type": "image", "image": part.read(where)}


def _call(number: int, place: int, call: ToolCallMade) -> dict[str, Any]:
    where = f"messages[{number}].tool_calls[{place}].function.arguments"
    try:
        arguments = parse_object(call.function.arguments.encode())
    except ApiError as error:
        told = error.message.replace("the body", f"`{where}`")
        raise bad_request(told, param=where) from None
    return {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": arguments}}


def _answered(number: int, message: ChatMessage, made: dict[str, str]) -> dict[str, Any]:
    where = f"messages[{number}].tool_call_id"
    if message.tool_call_id not in made:
        raise bad_request(f"`{where}` must be the id of a call in an earlier message", param=where)
    return {"tool_call_id": message.tool_call_id, "name": made[message.tool_call_id]}
