"""Events as JSON for tools that draw the canvas: every commit, revision and finished block."""

from __future__ import annotations

from typing import Any

from anyorder.channels.marked import plain
from anyorder.events import Decided, Event, Finished, Started
from anyorder.server.streams.answer import Answer, Delta


def typed(answer: Answer, index: int, event: Event, delta: Delta) -> dict[str, Any]:
    """One event.

    `index` says of which answer it is; slots are numbered from the beginning of the prompt. Commits come with the text
    of each token by itself; `text_delta` is what the append-only text gained.
    """
    data = event.as_dict()
    del data["request"]
    data["index"] = index
    match event:
        case Decided():
            data["texts"] = [plain(answer.decode([token])) for token in event.ids]
        case Started():
            data["texts"] = [
                "" if slot in event.open else plain(answer.decode([id])) for slot, id in enumerate(event.ids)
            ]
        case Finished():
            data["finish_reason"] = data.pop("reason")
        case _:
            pass
    return {**data, "text_delta": delta.text}
