"""A window of open slots that slides behind the text: WeDLM's streaming decoding."""

from __future__ import annotations

from anyorder.cache.schemes import Span
from anyorder.decoders.reordered import ReorderedDecoder
from anyorder.events import BlockFinished, Event


class StreamingDecoder(ReorderedDecoder):
    """As `ReorderedDecoder`, but the masks are not those of a block: `block_length` columns from the first open slot on
    are in sight in every pass, so for every slot that is finished from the left another one is opened.

    Blocks are only counted, for those who read the events. WeDLM's engine also decides slots behind the last wanted one
    and behind a stop token, until it notices, and ends with a pass over the last tokens; none of this is done here.

    Source: WeDLM, `wedlm/engine/wedlm_decoder.py`.
    """

    def _enter(self) -> None:
        start = self._first_unknown()
        end = self.end if self.stop_slot() is None else len(self.canvas)  # nothing is opened behind a stop token
        self.block = Span(start, min(start + self.block_length, end))
        self.step = 0
        self.computed = False

    def _after_commit(self) -> list[Event]:
        start = self.block.start
        self._enter()
        events: list[Event] = list(self._left_behind(start))
        reason = self.ending()
        if reason is None:
            events += self._open()
            reason = self.ending()  # the caller may have forced the rest
        return events + self._end(reason) if reason else events

    def _left_behind(self, start: int) -> list[BlockFinished]:
        """The blocks that hold no open slot any more, now that the window has moved from `start`."""
        origin, length = self.canvas.answer_start, self.block_length
        end = self.block.start
        done = (end - origin) // length if end < self.end else -(-(end - origin) // length)
        return [self._finished(index) for index in range((start - origin) // length, done)]
