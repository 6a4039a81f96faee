"""Markers that are control tokens, told apart in an answer's text from the same letters spelt with other tokens.

The first letter of such a marker is `SIGN` while an answer is read by channel. No character is added, so lengths and
offsets are those of the text that is handed out, which `plain` makes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from anyorder.channels.syntax import Syntax

SIGN = "\udfff"
"""Half of a pair of surrogates: no text that tokens decode to can hold it."""
LETTER = "<"
"""What all markers begin with."""


def marked(marker: str) -> str:
    """A marker as the control token that it is."""
    assert marker.startswith(LETTER)
    return SIGN + marker[1:]


def plain(text: str, *, keep: Collection[str] = ()) -> str:
    """The text as it is handed out.

    Args:
        keep: marked markers that stay so.
    """
    if SIGN not in text:
        return text
    whole = text.replace(SIGN, LETTER)
    for marker in keep:
        at = text.find(marker)
        while at >= 0:
            whole = whole[:at] + marker + whole[at + len(marker) :]
            at = text.find(marker, at + len(marker))
    return whole


def with_tokens(syntax: Syntax, tokens: Collection[str]) -> Syntax:
    """The same way of writing, as answers hold it in which these markers are control tokens."""

    def as_read(marker: str) -> str:
        return marked(marker) if any(marker.startswith(token) for token in tokens) else marker

    reasoning, tools = syntax.reasoning, syntax.tools
    if reasoning is not None:
        reasoning = replace(reasoning, open=as_read(reasoning.open), close=as_read(reasoning.close))
    if tools is not None:
        words = tuple(as_read(word) for word in tools.words)
        tools = replace(tools, open=as_read(tools.open), close=as_read(tools.close), words=words)
    return replace(syntax, reasoning=reasoning, tools=tools)
