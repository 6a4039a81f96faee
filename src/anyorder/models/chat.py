"""Chat templates, rendered by transformers, and the fences that tell message contents from the template."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import jinja2
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from anyorder.errors import ParameterError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ROLES = ("system", "user", "assistant", "tool")
EXTRA = {"assistant": ("tool_calls", "reasoning_content"), "tool": ("name", "tool_call_id")}
"""Role -> what its messages may hold besides role and content; the template decides what it reads."""
PRIVATE_USE = range(0xE000, 0xF900)
IMAGE = {"type": "image"}
"""Part of a content: the place of an image; the template says which tokens stand there."""

Message = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TemplateInputs:
    """What a chat template is given besides the messages."""

    tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that may be called, as OpenAI's objects."""
    variables: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Variables of the template itself, as `enable_thinking`."""


NOTHING = TemplateInputs()


def check_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Copies of the messages.

    Raises:
        ParameterError: no message, an unknown role, a content of no known kind, or a field that its role has not.
    """
    if not messages:
        raise ParameterError("messages must hold at least one message", param="messages")
    return [_checked(number, message) for number, message in enumerate(messages)]


def _checked(number: int, message: Message) -> dict[str, Any]:
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise ParameterError(
            f"messages[{number}]: role must be one of {', '.join(ROLES)}, got {role!r}", param="messages"
        )
    if not isinstance(content, str) and not _are_parts(content):
        raise ParameterError(
            f"messages[{number}]: content must be a string or a list of parts, got {content!r}", param="messages"
        )
    known = ("role", "content", *EXTRA.get(role, ()))
    if extra := sorted(set(message) - set(known)):
        raise ParameterError(
            f"messages[{number}]: unknown field {extra[0]!r}; known: {', '.join(known)}", param="messages"
        )
    return dict(message)


def _are_parts(content: object) -> bool:
    """Is this a list of texts and images?"""
    if not isinstance(content, list) or not content:
        return False
    return all(part == IMAGE or _is_text(part) for part in content)


def _is_text(part: object) -> bool:
    match part:
        case {"type": "text", "text": str(), **rest}:
            return not rest
        case _:
            return False


def written(message: Message) -> list[str]:
    """The texts of a message's content."""
    content = message["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content if part != IMAGE]


def reads(template: str, name: str) -> bool:
    """Does the template mention this variable?"""
    return re.search(rf"\{{[{{%](?:(?![%}}]\}}).)*\b{re.escape(name)}\b", template, re.DOTALL) is not None


def check_variables(template: str, variables: Mapping[str, Any], named: Mapping[str, str]) -> None:
    """Refuse variables that the template does not read, and those that are not the caller's.

    Raises:
        ParameterError: its `param` is the variable.
    """
    for name in variables:
        if name in _own_names() or name in named:
            raise ParameterError(f"{name!r} is set by the server, not by a request", param=name)
        if not name.isidentifier() or not reads(template, name):
            raise ParameterError(f"the model's chat template reads no {name[:80]!r}; leave it out", param=name)


@cache
def _own_names() -> frozenset[str]:
    """Names that mean something to the renderer or are always given."""
    from transformers import PreTrainedTokenizerFast

    taken = inspect.signature(PreTrainedTokenizerFast.apply_chat_template).parameters
    return frozenset({*taken, "messages", "raise_exception", "strftime_now"})


def render(
    template: str,
    messages: Sequence[Message],
    *,
    prompt: bool,
    named: Mapping[str, str],
    inputs: TemplateInputs = NOTHING,
) -> str:
    """The chat as text.

    Args:
        prompt: end with the opening of the assistant's turn.
        named: `bos_token` and so on, which templates refer to.
        inputs: what else the template reads; `check_variables` comes first.
    Raises:
        ParameterError: the template rejects these messages.
    """
    renderer = _renderer(template, tuple(sorted(named.items())))
    conversation = [dict(message) for message in messages]
    tools: Any = [dict(tool) for tool in inputs.tools] or None
    try:
        text = renderer.apply_chat_template(
            conversation, tools=tools, tokenize=False, add_generation_prompt=prompt, **inputs.variables
        )
    except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise ParameterError(f"the model's chat template rejects the messages: {error}", param="messages") from None
    return str(text)


def fenced(
    template: str,
    messages: Sequence[Message],
    *,
    prompt: bool,
    named: Mapping[str, str],
    inputs: TemplateInputs = NOTHING,
    control: Sequence[str] = (),
) -> list[tuple[bool, str]]:
    """The chat as pieces: (True, text of the template) and (False, text of the caller), in order.

    Each content is rendered as a placeholder, its outer blanks left in place so that trimming templates still work.
    In everything else the caller wrote, strings of `control` tokens are marked: templates may write it as JSON, which
    leaves these strings as they are.
    """
    fence, mark = _unused_characters(template, messages, inputs)
    marked = _marker(control, mark)
    cores: list[str] = []

    def held(text: str) -> str:
        # nothing but blanks stays as it is: templates may ask whether there is a content at all
        core = text.strip()
        cores.append(core)
        return text.replace(core, f"{fence}{len(cores) - 1}{fence}", 1) if core else text

    conversation = [
        {**marked(message), "role": message["role"], "content": _held(message["content"], held)} for message in messages
    ]
    told = TemplateInputs(tools=tuple(marked(tool) for tool in inputs.tools), variables=marked(dict(inputs.variables)))
    text = render(template, conversation, prompt=prompt, named=named, inputs=told)
    parts = re.split(f"{fence}(\\d+){fence}", text)
    pieces: list[tuple[bool, str]] = []
    for place, part in enumerate(parts):
        own = re.split(f"{mark}(.*?){mark}", part) if place % 2 == 0 else ["", cores[int(part)]]
        pieces += [(inner % 2 == 0, piece) for inner, piece in enumerate(own)]
    if any(fence in text or mark in text for own, text in pieces if own):
        raise ParameterError("the model's chat template cuts messages apart; use a plain prompt", param="messages")
    return [(own, text) for own, text in pieces if text]


def spells(value: Any, control: Sequence[str]) -> bool:
    """Does a text anywhere in this value hold the string of a control token?"""
    return any(string in text for text in _texts(value) for string in control)


def _held(content: str | list[dict[str, str]], held: Callable[[str], str]) -> str | list[dict[str, str]]:
    """A content with its texts replaced."""
    if isinstance(content, str):
        return held(content)
    return [part if part == IMAGE else {**part, "text": held(part["text"])} for part in content]


def _marker(control: Sequence[str], mark: str) -> Callable[[Any], Any]:
    """A function that puts `mark` around every string of a control token in a JSON value."""
    if not control:
        return lambda value: value
    pattern = re.compile("|".join(re.escape(string) for string in sorted(control, key=len, reverse=True)))

    def marked(value: Any) -> Any:
        match value:
            case str():
                return pattern.sub(lambda found: f"{mark}{found[0]}{mark}", value)
            case Mapping():
                return {marked(key): marked(part) for key, part in value.items()}
            case list() | tuple():
                return [marked(part) for part in value]
            case _:
                return value

    return marked


def _texts(value: Any) -> Iterator[str]:
    """Every string of a JSON value, names of fields included."""
    match value:
        case str():
            yield value
        case Mapping():
            for key, part in value.items():
                yield from _texts(key)
                yield from _texts(part)
        case list() | tuple():
            for part in value:
                yield from _texts(part)
        case _:
            pass


def _unused_characters(template: str, messages: Sequence[Message], inputs: TemplateInputs) -> tuple[str, str]:
    used = set(template).union(*_texts([messages, inputs.tools, inputs.variables]))
    unused = (chr(code) for code in PRIVATE_USE if chr(code) not in used)
    return next(unused), next(unused)


@cache
def _renderer(template: str, named: tuple[tuple[str, str], ...]) -> PreTrainedTokenizerFast:
    """transformers' renderer of a template; the vocabulary behind it does not matter, since nothing is tokenized."""
    from transformers import PreTrainedTokenizerFast  # late: it takes half a second, and only chats need it

    nothing = Tokenizer(WordLevel({}, unk_token=""))
    return PreTrainedTokenizerFast(tokenizer_object=nothing, chat_template=template, **dict(named))
