"""Text that only grows: token ids to characters, and stop strings kept out. Pure; nothing here waits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from anyorder.channels.marked import plain
from anyorder.channels.markers import begun

Decode = Callable[[Sequence[int]], str]
UNDECODED = "\ufffd"


class Detokenizer:
    """Ids to text, piece by piece: the pieces together are the text of all ids.

    A piece ends where a character ends: bytes of a character that is not complete yet are held back. Only the last
    pieces are decoded again, so a long answer costs no more per token than a short one.

    Args:
        decode: ids to text; the text of the first n ids must be the beginning of that of all of them, but for
            characters whose bytes are not all there.
        byte_ids: tokens that stand for one byte and are decoded as a run (byte fallback): a run is held back to its
            end, since one bad byte in it changes all of its text.
    """

    def __init__(self, decode: Decode, byte_ids: Collection[int] = ()) -> None:
        self._decode = decode
        self._byte_ids = byte_ids
        self._ids: list[int] = []
        self._anchor = 0  # ids before it are not decoded again
        self.read = 0
        """Ids whose text was handed out."""

    def push(self, ids: Sequence[int]) -> str:
        """The text that these ids complete."""
        self._ids += ids
        end = len(self._ids)
        while end > self.read and self._ids[end - 1] in self._byte_ids:
            end -= 1
        text = self._text(end)
        return "" if text.endswith(UNDECODED) else self._taken(text, end)

    def flush(self) -> str:
        """What was held back, complete or not: no more ids come."""
        end = len(self._ids)
        return self._taken(self._text(end), end)

    def _text(self, end: int) -> str:
        """Text of the ids from `read` to `end`, in the light of those before."""
        known = self._decode(self._ids[self._anchor : self.read])
        return self._decode(self._ids[self._anchor : end])[len(known) :]

    def _taken(self, text: str, end: int) -> str:
        if text:
            self._anchor = self.read
        self.read = end
        return text


class StopFilter:
    """Lets text through up to the first stop string, and never a part of one.

    The stop string that is complete first counts; of two that end at the same character, the longer one. So the text
    does not depend on the pieces in which it came.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self.stops = tuple(stops)
        self.hit: str | None = None
        """The stop string that was found."""
        self._held = ""

    def push(self, text: str) -> str:
        """The part of what was held back and of `text` that cannot belong to a stop string."""
        if self.hit is not None:
            return ""
        pending = self._held + text
        letters = plain(pending)
        if found := self._first(letters):
            start, self.hit = found
            self._held = ""
            return pending[:start]
        keep = begun(letters, self.stops)
        self._held = pending[len(pending) - keep :]
        return pending[: len(pending) - keep]

    def flush(self) -> str:
        """What was held back: no more text comes."""
        text, self._held = self._held, ""
        return text

    def _first(self, text: str) -> tuple[int, str] | None:
        places = [(text.find(stop), stop) for stop in self.stops]
        found = [(start + len(stop), start, stop) for start, stop in places if start >= 0]
        return min(found)[1:] if found else None
