"""The output of a `/v1/responses` answer: items that grow, and the events that tell of it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from anyorder.channels.parts import CallArguments, CallBegun, Content, Part, Reasoning

Event = tuple[str, dict[str, Any]]
"""Type and fields of an event, but for its number."""


def new_id(prefix: str) -> str:
    """An id that nothing else has."""
    return f"{prefix}_{uuid.uuid4().hex}"


@dataclass
class Output:
    """Items in the order in which the model writes them; the last one may be growing.

    `add` and `close` return the events; the items are what these events come to.
    """

    items: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    growing: bool = False

    def add(self, part: Part, logprobs: Sequence[dict[str, Any]] = ()) -> list[Event]:
        """Take the next part.

        Args:
            logprobs: of the tokens of a text.
        """
        match part:
            case Content():
                return [*self._begun("message"), *self._text(part.text, logprobs)]
            case Reasoning():
                return [*self._begun("reasoning"), *self._reasoning(part.text)]
            case CallBegun():
                return [*self.close(), *self._call(part)]
            case CallArguments():
                self.items[-1]["arguments"] += part.text
                return [self._event("function_call_arguments.delta", delta=part.text)]

    def close(self, status: str = "completed") -> list[Event]:
        """End the item that grows, if one does."""
        if not self.growing:
            return []
        self.growing = False
        item = self.items[-1]
        item["status"] = status
        ended = {"message": self._text_done, "reasoning": self._reasoning_done, "function_call": self._call_done}
        return [*ended[item["type"]](item), self._event("output_item.done", item=_copied(item))]

    def _begun(self, kind: str) -> list[Event]:
        """Events of a new message or piece of reasoning; none if the last item is one that grows."""
        if self.growing and self.items[-1]["type"] == kind:
            return []
        ended = self.close()
        message = kind == "message"
        item: dict[str, Any] = {"id": new_id("msg" if message else "rs"), "type": kind, "status": "in_progress"}
        item |= {"role": "assistant", "content": []} if message else {"summary": [], "content": []}
        self._open(item)
        added = self._event("output_item.added", item=_copied(item))
        item["content"].append(_empty(kind))
        return [*ended, added, self._event("content_part.added", content_index=0, part=_empty(kind))]

    def _open(self, item: dict[str, Any]) -> None:
        self.items.append(item)
        self.growing = True

    def _text(self, text: str, logprobs: Sequence[dict[str, Any]]) -> list[Event]:
        part = self.items[-1]["content"][0]
        part["text"] += text
        part["logprobs"] += logprobs
        return [self._event("output_text.delta", content_index=0, delta=text, logprobs=[*logprobs])]

    def _text_done(self, item: dict[str, Any]) -> list[Event]:
        part = item["content"][0]
        return [
            self._event("output_text.done", content_index=0, text=part["text"], logprobs=part["logprobs"]),
            self._event("content_part.done", content_index=0, part=part),
        ]

    def _reasoning(self, text: str) -> list[Event]:
        self.items[-1]["content"][0]["text"] += text
        return [self._event("reasoning_text.delta", content_index=0, delta=text)]

    def _reasoning_done(self, item: dict[str, Any]) -> list[Event]:
        part = item["content"][0]
        return [
            self._event("reasoning_text.done", content_index=0, text=part["text"]),
            self._event("content_part.done", content_index=0, part=part),
        ]

    def _call(self, call: CallBegun) -> list[Event]:
        item: dict[str, Any] = {"id": new_id("fc"), "type": "function_call", "status": "in_progress"}
        item |= {"call_id": call.id, "name": call.name, "arguments": ""}
        self._open(item)
        return [self._event("output_item.added", item=_copied(item))]

    def _call_done(self, item: dict[str, Any]) -> list[Event]:
        return [self._event("function_call_arguments.done", name=item["name"], arguments=item["arguments"])]

    def _event(self, kind: str, **fields: Any) -> Event:
        """An event of the last item."""
        place = {"output_index": len(self.items) - 1}
        if "item" not in fields:
            place["item_id"] = self.items[-1]["id"]
        return f"response.{kind}", {**place, **fields}


def _empty(kind: str) -> dict[str, Any]:
    if kind == "message":
        return {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    return {"type": "reasoning_text", "text": ""}


def _copied(item: dict[str, Any]) -> dict[str, Any]:
    """The item as it stands: it is written down when the event is, and may have grown."""
    return {**item, **({"content": [dict(part) for part in item["content"]]} if "content" in item else {})}
