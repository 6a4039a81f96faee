"""The reasoning of chats: turned on and off through the chat template, and told apart from the answer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

from anyorder.channels.marked import marked, with_tokens
from anyorder.channels.parser import Channels
from anyorder.channels.parts import Spoken
from anyorder.channels.syntax import ReasoningSyntax, Syntax, syntax_of
from anyorder.errors import ParameterError
from anyorder.generation import Said
from anyorder.models.chat import TemplateInputs, reads
from anyorder.prompt import Prompt, is_chat

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel
    from anyorder.models.tokenizer import Tokenizer


def template_inputs(model: LoadedModel, prompt: Prompt, thinking: bool | None) -> TemplateInputs | None:
    """What the chat template is told of thinking; None: nothing, it does what it does by itself.

    Args:
        thinking: on, off, or None.
    Raises:
        ParameterError: the prompt is no chat, or the model cannot do it.
    """
    if thinking is None:
        return None
    if not isinstance(thinking, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        _refuse(f"`thinking` must be True, False or None, got {thinking!r}")
    if not is_chat(prompt):
        _refuse("`thinking` is a matter of the chat template, and this prompt is no list of messages; drop it")
    way, template = _syntax(model).reasoning, _template(model)
    if way is None:
        _refuse(f"`thinking`: {_name(model)} has a chat template without a reasoning channel; leave it out")
    if reads(template, way.switch):
        return TemplateInputs(variables={way.switch: thinking})
    if not thinking:
        _refuse(f"`thinking`: {_name(model)} always reasons, its chat template has no switch; drop thinking=False")
    return None


def reader_of(model: LoadedModel, prompt: Prompt, inputs: TemplateInputs | None) -> Reader | None:
    """How answers to this prompt are read; None: all of their text is the answer.

    Args:
        inputs: from `template_inputs`.
    """
    if not is_chat(prompt) or model.tokenizer is None:
        return None
    way = _syntax(model).reasoning
    if way is None:
        return None
    begun = opens_reasoning(model.tokenizer, way, inputs or TemplateInputs())
    return Reader(model.tokenizer, Syntax(reasoning=way), begun=begun)


@dataclass(frozen=True)
class Reader:
    """Reads the reasoning of finished answers.

    Args:
        begun: the prompt has opened the channel already.
    """

    tokenizer: Tokenizer
    syntax: Syntax
    begun: bool
    markers: Mapping[int, str] = field(init=False)
    """Control tokens that mark the channel. A marker that has one and is spelt with others is text."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "markers", marker_tokens(self.tokenizer, self.syntax))

    def read(self, ids: Sequence[int]) -> Said:
        """An answer, without its stop token, by channel. A channel that was not closed is reasoning to the end."""
        channels = Channels(with_tokens(self.syntax, self.markers.values()), thinking=self.begun)
        spoken = Spoken()
        spoken.add(channels.push(self._marked(ids)))
        spoken.add(channels.flush())
        end = max((end for _, end in channels.spans), default=0)
        tokens = bisect_left(range(len(ids)), end, key=lambda count: len(self._marked(ids[:count]))) if end else 0
        if not tokens:
            return Said(self.tokenizer.decode(list(ids)))
        return Said(self._answer(ids[tokens:], spoken), spoken.reasoning or None, tokens)

    def _answer(self, rest: Sequence[int], spoken: Spoken) -> str:
        assert self.syntax.reasoning is not None
        if self.syntax.reasoning.close in self.markers.values():
            return self.tokenizer.decode(list(rest)).lstrip()
        return spoken.content  # a token may hold the end of the marker and the beginning of the answer

    def _marked(self, ids: Sequence[int]) -> str:
        return decode_marked(self.tokenizer, ids, self.markers)


def decode_marked(tokenizer: Tokenizer, ids: Sequence[int], markers: Mapping[int, str]) -> str:
    """Ids to text for a reader of channels: markers that are control tokens are there, and `marked`.

    Args:
        markers: from `marker_tokens`.
    """
    if markers.keys().isdisjoint(ids):
        return tokenizer.decode(list(ids))
    starts = [0, *(at for at, token in enumerate(ids) if token in markers and at), len(ids)]
    return "".join(_run(tokenizer, ids[start:end], markers) for start, end in pairwise(starts))


def _run(tokenizer: Tokenizer, ids: Sequence[int], markers: Mapping[int, str]) -> str:
    """Text of ids of which only the first may be a marker, decoded together: some decoders drop a leading blank."""
    text = tokenizer.decode(list(ids), shown=frozenset(markers))
    marker = markers.get(ids[0], "")
    return marked(marker) + text.removeprefix(marker) if marker else text


def marker_tokens(tokenizer: Tokenizer, syntax: Syntax) -> dict[int, str]:
    """The control tokens among the markers of a syntax: id -> string."""
    found = ((tokenizer.token_id(marker), marker) for marker in syntax.markers)
    return {token: marker for token, marker in found if token is not None and tokenizer.is_control(token)}


def opens_reasoning(tokenizer: Tokenizer, way: ReasoningSyntax, inputs: TemplateInputs) -> bool:
    """Does the chat template open the reasoning channel for the answer?"""
    opening = tokenizer.answer_opening(inputs)
    return opening.rfind(way.open.strip()) > opening.rfind(way.close)


def _syntax(model: LoadedModel) -> Syntax:
    return syntax_of(model.spec.name, _template(model), tools="none")


def _template(model: LoadedModel) -> str:
    return (model.tokenizer.chat_template if model.tokenizer else None) or ""


def _name(model: LoadedModel) -> str:
    return f"{model.source} (family {model.spec.name})"


def _refuse(message: str) -> NoReturn:
    raise ParameterError(message, param="thinking")
