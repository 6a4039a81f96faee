"""An answer that goes on as a request of its own: what happens in it, as if it were still the first one."""

from __future__ import annotations

from dataclasses import replace

from anyorder.events import BlockFinished, Decided, Event, Finished, Remasked, Started
from anyorder.serving import Computed


def added(before: Computed, computed: Computed) -> Computed:
    """What both took."""
    return Computed(before.passes + computed.passes, before.positions + computed.positions)


def onward(event: Event, before: Computed, answer_start: int) -> Event:
    """The event, its passes counted from the first request's beginning. Slots are the same: the prompt has grown.

    Args:
        before: what came before it took.
        answer_start: where the answer begins.
    """
    match event:
        case Started():
            return replace(event, answer_start=answer_start)
        case Decided() | Remasked():
            return replace(event, pass_index=event.pass_index + before.passes)
        case BlockFinished():
            return replace(event, passes=event.passes + before.passes)
        case Finished():
            return replace(event, passes=event.passes + before.passes, positions=event.positions + before.positions)
        case _:
            return event
