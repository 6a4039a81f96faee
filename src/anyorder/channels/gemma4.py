"""Calls as Gemma 4 writes them: `call:NAME{key:value,...}`, strings between quote tokens, keys bare or so quoted.

Values are strings `<|"|>...<|"|>` without escapes, numbers, true, false, null, `{...}` and `[...]`.
Source: the chat template of Gemma 4.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, NoReturn

QUOTE = '<|"|>'
_HEAD = re.compile(r"\s*call:\s*([A-Za-z0-9_.-]+)\s*(?=\{)")
_MAX_DEPTH = 64


class _NoCall(Exception):
    """The text is not written so."""


def read(body: str, quote: str = QUOTE) -> list[tuple[str, dict[str, Any]]] | None:
    """Name and arguments of the call; None if the text is anything else.

    Args:
        quote: what stands around strings.
    """
    head = _HEAD.match(body)
    if head is None:
        return None
    try:
        reader = _Reader(_words(body[head.end() :], quote))
        arguments = reader.value()
        reader.end()
    except (_NoCall, IndexError):
        return None
    return [(head[1], arguments)] if isinstance(arguments, dict) else None


def quoted(body: str, quote: str = QUOTE) -> bool:
    """Does this beginning of a call end inside a string?"""
    return body.count(quote) % 2 == 1


@cache
def _pattern(quote: str) -> re.Pattern[str]:
    mark = re.escape(quote)
    return re.compile(rf"{mark}(.*?){mark}|([{{}}\[\],:])|([^{{}}\[\],:]+?)(?=\s*(?:[{{}}\[\],:]|{mark}|$))", re.DOTALL)


def _words(text: str, quote: str) -> list[tuple[str, str]]:
    """(kind, text) of every string ("s"), mark ("m") and bare word ("w")."""
    found: list[tuple[str, str]] = []
    split, at = _pattern(quote), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = split.match(text, at)
        if match is None:
            raise _NoCall
        kind = "s" if match[1] is not None else "m" if match[2] else "w"
        found.append((kind, match[match.lastindex or 0]))
        at = match.end()
    return found


class _Reader:
    """Reads values from words, left to right."""

    def __init__(self, words: list[tuple[str, str]]) -> None:
        self.words = words
        self.at = 0

    def value(self, depth: int = 0) -> Any:
        """The next value."""
        kind, text = self._next()
        if depth > _MAX_DEPTH:
            raise _NoCall
        if kind == "s":
            return text
        if kind == "w":
            return _bare(text)
        if text == "{":
            return self._object(depth)
        if text == "[":
            return self._list(depth)
        raise _NoCall

    def end(self) -> None:
        """Nothing may follow."""
        if self.at < len(self.words):
            raise _NoCall

    def _next(self) -> tuple[str, str]:
        self.at += 1
        return self.words[self.at - 1]

    def _takes(self, mark: str) -> bool:
        if self.words[self.at] != ("m", mark):
            return False
        self.at += 1
        return True

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._takes("}"):
            return found
        while True:
            kind, key = self._next()
            if kind == "m" or key in found or not self._takes(":"):
                raise _NoCall
            found[key] = self.value(depth + 1)
            if self._takes("}"):
                return found
            if not self._takes(","):
                raise _NoCall

    def _list(self, depth: int) -> list[Any]:
        found: list[Any] = []
        if self._takes("]"):
            return found
        while True:
            found.append(self.value(depth + 1))
            if self._takes("]"):
                return found
            if not self._takes(","):
                raise _NoCall


def _bare(word: str) -> Any:
    try:
        return json.loads(word, parse_constant=_refuse)
    except ValueError:
        raise _NoCall from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
