"""Chat templates, rendered by transformers, and the fences that tell message contents from the template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import jinja2
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from anyorder.errors import ParameterError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ROLES = ("system", "user", "assistant")
PRIVATE_USE = range(0xE000, 0xF900)

Message = Mapping[str, str]


def check_messages(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Copies of the messages, reduced to role and content.

    Raises:
        ParameterError: no message, an unknown role, or a content that is no string.
    """
    if not messages:
        raise ParameterError("messages must hold at least one message", param="messages")
    return [_checked(number, message) for number, message in enumerate(messages)]


def _checked(number: int, message: Message) -> dict[str, str]:
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise ParameterError(
            f"messages[{number}]: role must be one of {', '.join(ROLES)}, got {role!r}", param="messages"
        )
    if not isinstance(content, str):
        raise ParameterError(f"messages[{number}]: content must be a string, got {content!r}", param="messages")
    if extra := sorted(set(message) - {"role", "content"}):
        raise ParameterError(f"messages[{number}]: unknown field {extra[0]!r}; known: role, content", param="messages")
    return {"role": role, "content": content}


def render(template: str, messages: Sequence[Message], *, prompt: bool, named: Mapping[str, str]) -> str:
    """The chat as text.

    Args:
        prompt: end with the opening of the assistant's turn.
        named: `bos_token` and so on, which templates refer to.
    Raises:
        ParameterError: the template rejects these messages.
    """
    renderer = _renderer(template, tuple(sorted(named.items())))
    conversation = [dict(message) for message in messages]
    try:
        text = renderer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=prompt)
    except jinja2.TemplateError as error:
        raise ParameterError(f"the model's chat template rejects the messages: {error}", param="messages") from None
    return str(text)


def fenced(
    template: str, messages: Sequence[Message], *, prompt: bool, named: Mapping[str, str]
) -> list[tuple[bool, str]]:
    """The chat as pieces: (True, text of the template) and (False, text of a message), in order.

    Each content is rendered as a placeholder, its outer blanks left in place so that trimming templates still work.
    """
    fence = _unused_character(template, messages)
    cores = [message["content"].strip() for message in messages]
    held = [
        _held(message, core, f"{fence}{index}{fence}")
        for index, (message, core) in enumerate(zip(messages, cores, strict=True))
    ]
    parts = re.split(f"{fence}(\\d+){fence}", render(template, held, prompt=prompt, named=named))
    pieces = [(True, part) if place % 2 == 0 else (False, cores[int(part)]) for place, part in enumerate(parts)]
    if any(fence in text for own, text in pieces if own):
        raise ParameterError("the model's chat template cuts messages apart; use a plain prompt", param="messages")
    return [(own, text) for own, text in pieces if text]


def _held(message: Message, core: str, placeholder: str) -> Message:
    # nothing but blanks stays as it is: templates may ask whether there is a content at all
    return {**message, "content": message["content"].replace(core, placeholder, 1)} if core else message


def _unused_character(template: str, messages: Sequence[Message]) -> str:
    used = set(template).union(*(message["content"] for message in messages))
    return next(chr(code) for code in PRIVATE_USE if chr(code) not in used)


@cache
def _renderer(template: str, named: tuple[tuple[str, str], ...]) -> PreTrainedTokenizerFast:
    """transformers' renderer of a template; the vocabulary behind it does not matter, since nothing is tokenized."""
    from transformers import PreTrainedTokenizerFast  # late: it takes half a second, and only chats need it

    nothing = Tokenizer(WordLevel({}, unk_token=""))
    return PreTrainedTokenizerFast(tokenizer_object=nothing, chat_template=template, **dict(named))
