"""From a record to token documents, with the tokens marked that may be masked and scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from anyorder.errors import AnyorderError, DataError, ModelError
from anyorder.models.tokenizer import Tokenizer
from anyorder.training.data.files import Record
from anyorder.training.data.report import SourceReport

SHORTEST = 2
"""Tokens of the shortest document that something can be learned from: with shift, nothing predicts the first one."""
CHUNK = 1 << 20
"""Characters that are tokenized at a time; a tokenizer needs many times the memory of its text."""


@dataclass(frozen=True)
class Vocabulary:
    """What the ids of a model mean."""

    tokenizer: Tokenizer | None
    size: int
    """Rows of the embedding table."""
    end_id: int | None = None
    """Put behind plain texts, so that a model learns to stop; None: nothing is."""

    def require(self) -> Tokenizer:
        """The tokenizer.

        Raises:
            ModelError: there is none.
        """
        if self.tokenizer is None:
            raise ModelError("this model has no tokenizer, so that it cannot read text; give it data of kind 'ids'")
        return self.tokenizer


@dataclass(frozen=True)
class Example:
    """A token document; both lists are of one length."""

    ids: list[int]
    trainable: list[bool]

    def cut(self, length: int) -> tuple[Example, Example | None]:
        """The first `length` tokens, and the rest if there is any."""
        head = Example(self.ids[:length], self.trainable[:length])
        return head, Example(self.ids[length:], self.trainable[length:]) if len(self.ids) > length else None


Encode = Callable[[Record, Vocabulary, SourceReport], list[Example]]


def text_of(record: Record, vocabulary: Vocabulary, report: SourceReport) -> list[Example]:
    """A plain text: every token may be masked, the one that ends it as well."""
    tokenizer = vocabulary.require()
    ids: list[int] = []
    for part in _chunks(record.value):
        ids += tokenizer.encode_text(part, bos=not ids)
    if vocabulary.end_id is not None:
        ids.append(vocabulary.end_id)
    return [Example(ids, [True] * len(ids))]


def _chunks(text: str) -> list[str]:
    """The text in pieces of about CHUNK characters, cut where a line begins with something else than a blank."""
    cuts = [0]
    while len(text) - cuts[-1] > CHUNK:
        at = text.find("\n", cuts[-1] + CHUNK) + 1
        while at and at < len(text) and text[at].isspace():
            at = text.find("\n", at) + 1
        if not at or at >= len(text):
            break
        cuts.append(at)
    return [text[start:stop] for start, stop in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def field_of(name: str) -> Encode:
    """Records that hold a plain text, or the messages of a chat, under this key."""

    def encode(record: Record, vocabulary: Vocabulary, report: SourceReport) -> list[Example]:
        value = _fields(record, (name,), report)[name]
        if isinstance(value, str):
            return text_of(Record(record.where, value), vocabulary, report)
        if isinstance(value, list):
            return chat_of(Record(record.where, {"messages": value}), vocabulary, report)
        raise DataError(f"{record.where}: {name!r} must be a text or a list of messages, got {_kind(value)}")

    return encode


def plain_field_of(name: str) -> Encode:
    """Records that hold a plain text under this key."""

    def encode(record: Record, vocabulary: Vocabulary, report: SourceReport) -> list[Example]:
        value = _fields(record, (name,), report)[name]
        if not isinstance(value, str):
            raise DataError(f"{record.where}: {name!r} must be a text, got {_kind(value)}")
        return text_of(Record(record.where, value), vocabulary, report)

    return encode


def ids_of(record: Record, vocabulary: Vocabulary, report: SourceReport) -> list[Example]:
    """Token ids of a prompt, which is given, and of its answer, which is learned."""
    names = ("prompt_ids", "answer_ids")
    fields = _fields(record, names, report)
    prompt, answer = (_ids(record.where, name, fields[name]) for name in names)
    return [Example([*prompt, *answer], [False] * len(prompt) + [True] * len(answer))]


def _ids(where: str, name: str, value: Any) -> list[int]:
    if not isinstance(value, list):
        raise DataError(f"{where}: {name!r} must be a list of token ids, got {_kind(value)}")
    if wrong := [item for item in value if not isinstance(item, int) or isinstance(item, bool)]:
        raise DataError(f"{where}: {name!r} must hold token ids only, got {wrong[0]!r}")
    return value


def chat_of(record: Record, vocabulary: Vocabulary, report: SourceReport) -> list[Example]:
    """A conversation: the answers of the assistant are learned, all else is given.

    Where an answer begins is where a decoder would begin it: behind the ids of the messages before it with the opening
    of its turn. It ends with the token that ends the turn. One document holds the whole conversation, unless the
    template shows earlier answers in another way than the last one (Qwen3 drops their thoughts): then each answer gets
    a document of its own. An answer whose first token melts into the opening is left out of the loss, and counted.
    """
    messages = _fields(record, ("messages",), report)["messages"]
    tokenizer = vocabulary.require()
    try:
        turns = _turns(tokenizer, messages)
    except ModelError:
        raise  # no chat template: no line of the file is to blame
    except AnyorderError as error:
        raise DataError(f"{record.where}: {error}") from error
    whole: list[_Turn] = [turn for turn in turns if turn.separable]
    for _ in range(len(turns) - len(whole)):
        report.drop("answer whose beginning cannot be told from its opening")
    if all(_begins_with(later.ids, turn.ids) for turn, later in pairwise(turns)):
        return [_joined(turns)] if turns else [Example([], [])]
    return [_joined([turn]) for turn in whole]


@dataclass(frozen=True)
class _Turn:
    """The conversation up to the end of an answer."""

    ids: list[int]
    start: int
    """Where the answer begins."""
    stop: int
    """Behind the token that ends it."""
    separable: bool
    """The ids in front of the answer are those that a decoder would be given."""


def _turns(tokenizer: Tokenizer, messages: Any) -> list[_Turn]:
    _check(messages)
    found: list[_Turn] = []
    for number, message in enumerate(messages):
        if message.get("role") == "assistant":
            prompt = tokenizer.encode_chat(messages[:number])
            ids = tokenizer.encode_chat(messages[: number + 1], add_generation_prompt=False)
            found.append(_Turn(ids, len(prompt), _end(tokenizer, ids, len(prompt)), _begins_with(ids, prompt)))
        elif number + 1 == len(messages):
            tokenizer.encode_chat(messages)  # nothing is learned from it, but a wrong one is told all the same
    return found


def _check(messages: Any) -> None:
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise DataError('"messages" must be a list of {"role": ..., "content": ...}')
    if not messages:
        raise DataError('"messages" must hold at least one message')
    if messages[0].get("role") == "assistant":
        raise DataError('"messages" begins with an answer; put what it answers in front of it')


def _end(tokenizer: Tokenizer, ids: Sequence[int], start: int) -> int:
    """Behind the last control token, if only blanks follow: they belong to the template. Else the end."""
    last = next((at for at in range(len(ids) - 1, start - 1, -1) if tokenizer.is_control(ids[at])), None)
    if last is None or tokenizer.decode(ids[last + 1 :], skip_special=False).strip():
        return len(ids)
    return last + 1


def _begins_with(ids: Sequence[int], prefix: Sequence[int]) -> bool:
    return list(ids[: len(prefix)]) == list(prefix)


def _joined(turns: Sequence[_Turn]) -> Example:
    """The ids of the last of them, trainable where any of them has its answer."""
    trainable = [False] * turns[-1].stop
    for turn in turns:
        if turn.separable:
            trainable[turn.start : turn.stop] = [True] * (turn.stop - turn.start)
    return Example(turns[-1].ids[: turns[-1].stop], trainable)


def _fields(record: Record, names: Sequence[str], report: SourceReport) -> dict[str, Any]:
    """The wanted fields of a record; what else it holds is counted as ignored.

    Raises:
        DataError: one is missing.
    """
    for name in names:
        if name not in record.value:
            has = ", ".join(map(repr, record.value)) or "nothing"
            raise DataError(f"{record.where}: needs {' and '.join(map(repr, names))}; it has {has}")
    report.ignored.update(name for name in record.value if name not in names)
    return record.value


def _kind(value: Any) -> str:
    names = {str: "a text", list: "a list", dict: "an object", bool: "a truth value", type(None): "null"}
    return names.get(type(value), repr(value))
