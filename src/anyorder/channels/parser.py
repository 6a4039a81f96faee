"""Reads the channels of an answer from text that only grows, and hands out nothing that could still be something else.

A part of a marker is never shown. A call is handed out when it is complete, well formed and of a tool that there is;
anything else between its markers stays text. Blanks around reasoning and calls belong to the markers.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

from anyorder.channels.marked import plain
from anyorder.channels.markers import begun
from anyorder.channels.parts import CallArguments, CallBegun, Content, Part, Reasoning
from anyorder.channels.syntax import Syntax


def new_call_id() -> str:
    """An id that no other call has."""
    return f"call_{uuid.uuid4().hex[:24]}"


def written_json(value: object) -> str | None:
    """A value as JSON that every reader takes; None if there is none: a number without end."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value)  # half of a pair of surrogates
    except ValueError:
        return None
    return text


class Channels:
    """Text in, parts out; the parts do not depend on the pieces in which the text comes.

    Args:
        syntax: as the text has it: where it comes from tokens, that of `marked.with_tokens`.
        thinking: the prompt has opened the reasoning channel already.
        tools: names that may be called; without any, calls are text like any other.
        single: the answer ends behind its first call.
        new_id: names the calls.
    """

    def __init__(
        self,
        syntax: Syntax,
        *,
        thinking: bool = False,
        tools: Collection[str] = (),
        single: bool = False,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._made = (syntax, thinking, tools, single)
        self.reasoning = syntax.reasoning
        self.calls = syntax.tools if tools else None
        self.names = frozenset(tools)
        self.single = single
        self.new_id = new_id
        self.num_calls = 0
        self.ended: int | None = None
        """Characters of the answer, if `single` has ended it."""
        self.spans: list[tuple[int, int]] = []
        """Where reasoning stands in the text, its markers included: first character and the one behind the last."""
        self._state: Literal["start", "reasoning", "content", "call"] = "start"
        self._pending = ""  # read and not handed out
        self._read = 0  # characters before `_pending`
        self._searched = 0  # of a call: no closing marker begins before here
        self._blanks = ""  # held back: they are text only if more text of the same channel follows
        self._bare = True  # what comes next follows a marker, whose blanks are not text
        if thinking and self.reasoning is not None:
            self._state = "reasoning"
            self.spans.append((0, 0))
        else:
            self._bare = False

    def fresh(self) -> Channels:
        """One like this that has read nothing: for texts that are not final."""
        syntax, thinking, tools, single = self._made
        return Channels(syntax, thinking=thinking, tools=tools, single=single)

    def push(self, text: str) -> list[Part]:
        """What this text adds."""
        if self.ended is not None:
            return []
        self._pending += text
        parts: list[Part] = []
        while self._step(parts, final=False):
            pass
        self._extend()
        return parts

    def flush(self) -> list[Part]:
        """What was held back: no more text comes."""
        parts: list[Part] = []
        while self.ended is None and self._step(parts, final=True):
            pass
        self._extend()
        if self._blanks and self._state == "content":
            parts.append(Content(self._blanks))
            self._blanks = ""
        return parts

    @property
    def is_reasoning(self) -> bool:
        """Does the text so far end inside the reasoning channel?"""
        return self._state == "reasoning"

    @property
    def may_reason(self) -> bool:
        """Does the text so far end inside the reasoning channel, or where it may begin?"""
        return self.reasoning is not None and self._state in ("start", "reasoning")

    @property
    def closing_begun(self) -> int:
        """Characters of the closing marker of reasoning that the text so far ends with."""
        return begun(self._pending, (self.reasoning.close,)) if self.is_reasoning and self.reasoning else 0

    def _step(self, parts: list[Part], *, final: bool) -> bool:
        """One move of the machine; False if it needs more text."""
        match self._state:
            case "start":
                return self._start(final)
            case "reasoning":
                return self._reason(parts, final)
            case "content":
                return self._speak(parts, final)
            case "call":
                return self._call(parts, final)

    def _start(self, final: bool) -> bool:
        """Reasoning may begin here, and nowhere else."""
        way, text = self.reasoning, self._pending.lstrip()
        if way is not None and text.startswith(way.open):
            start = self._read
            self._take(len(self._pending) - len(text) + len(way.open))
            self.spans.append((start, self._read))
            self._blanks, self._bare, self._state = "", True, "reasoning"
            return True
        if way is not None and not final and way.open.startswith(text):
            return False  # nothing, blanks, or the beginning of the marker
        self._state = "content"
        return True

    def _reason(self, parts: list[Part], final: bool) -> bool:
        assert self.reasoning is not None
        close = self.reasoning.close
        at = self._pending.find(close)
        if at < 0:
            keep = 0 if final else begun(self._pending, (close,))
            self._show(self._take(len(self._pending) - keep), parts, Reasoning)
            return False
        self._show(self._take(at), parts, Reasoning)
        self._take(len(close))
        self._extend()
        self._blanks, self._bare, self._state = "", True, "start"
        return True

    def _speak(self, parts: list[Part], final: bool) -> bool:
        if self.calls is None:
            self._show(self._take(len(self._pending)), parts, Content)
            return False
        opening = self.calls.open
        at = self._pending.find(opening)
        if at < 0:
            keep = 0 if final else begun(self._pending, (opening,))
            self._show(self._take(len(self._pending) - keep), parts, Content)
            return False
        self._show(self._take(at), parts, Content)
        self._state, self._searched = "call", len(opening)
        return True

    def _call(self, parts: list[Part], final: bool) -> bool:
        """`_pending` begins with the opening marker."""
        way = self.calls
        assert way is not None
        at = self._pending.find(way.close, self._searched)
        if at < 0:
            self._searched = max(len(way.open), len(self._pending) - len(way.close) + 1)
            if final:
                self._fail(len(self._pending), parts)
            return final
        body, end = self._pending[len(way.open) : at], at + len(way.close)
        body = plain(body, keep=way.words)
        calls = self._calls(way.read(body, *way.words))
        if calls is not None:
            self._take(end)
            self._blanks, self._bare, self._state = "", True, "start"
            for name, arguments in calls[: 1 if self.single else None]:
                parts += [CallBegun(self.num_calls, self.new_id(), name), CallArguments(self.num_calls, arguments)]
                self.num_calls += 1
            if self.single and calls:
                self.ended = self._read
            return self.ended is None
        if way.quoted(body, *way.words):
            self._searched = end
        else:
            self._fail(end, parts)
        return True

    def _calls(self, found: Sequence[tuple[str, dict[str, Any]]] | None) -> list[tuple[str, str]] | None:
        """Names and arguments as JSON; None if one of them is no call that can be made."""
        if found is None or any(name not in self.names for name, _ in found):
            return None
        written = [(name, written_json(arguments)) for name, arguments in found]
        return None if any(text is None for _, text in written) else [(name, text or "") for name, text in written]

    def _fail(self, length: int, parts: list[Part]) -> None:
        """What looked like a call is text."""
        self._state = "content"
        self._show(self._take(length), parts, Content)

    def _take(self, length: int) -> str:
        text, self._pending = self._pending[:length], self._pending[length:]
        self._read += length
        return text

    def _extend(self) -> None:
        """The reasoning reaches to here."""
        if self._state == "reasoning":
            self.spans[-1] = (self.spans[-1][0], self._read)

    def _show(self, text: str, parts: list[Part], kind: type[Reasoning | Content]) -> None:
        """Hand text out, but for blanks next to a marker, as far as that is known."""
        text = self._blanks + text
        if self._bare:
            text = text.lstrip()
        shown = text if kind is Content and self.calls is None else text.rstrip()
        self._blanks = text[len(shown) :]
        if shown:
            self._bare = False
            parts.append(kind(plain(shown)))
