"""From the events of a finished request back to what its decoder saw at every pass that committed several slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.full import FullDecoder
from anyorder.errors import ParameterError
from anyorder.events import Committed, Event
from anyorder.window import Window

IDLE = 1000
"""Passes in a row that may commit nothing: schedules by chance have some."""


@dataclass(frozen=True, kw_only=True, eq=False)
class JointCommit:
    """Slots that one pass committed together."""

    pass_index: int
    window: Window
    """The pass without any cache: it starts at column 0, and its wanted rows are those that predict `slots`."""
    slots: Tensor  # [n] int64, the most confident first; n >= 2
    ids: Tensor  # [n] int64


def joint_commits(decoder: FullDecoder | BlockDecoder, events: Sequence[Event], end: int) -> Iterator[JointCommit]:
    """Lead a fresh decoder through the recorded decisions; no model is asked.

    Passes are matched by what they committed, not by their numbers: a service counts the chunks of a prompt as well.

    Args:
        decoder: built from the prompt and parameters of the request.
        events: all of the request's.
        end: slots from here on are no part of the text and left out.
    Raises:
        ParameterError: the decisions are not those of such a decoder.
    """
    commits = [event for event in events if isinstance(event, Committed)]
    decoder.start()
    idle = 0
    while decoder.finished is None and commits and idle <= IDLE:
        windows = decoder.plan()
        fits = set(commits[0].slots) <= set(decoder.slots.tolist())
        event = commits.pop(0) if fits else None
        idle = 0 if fits else idle + 1
        if event is not None and sum(slot < end for slot in event.slots) > 1:
            yield _joint(decoder, windows[0], event, end)
        decoder.apply(_decision(decoder.slots, event))
    if commits:
        raise ParameterError("`events` are not those of a request with these parameters", param="events")


def _joint(decoder: FullDecoder | BlockDecoder, window: Window, event: Committed, end: int) -> JointCommit:
    surest = sorted(range(len(event.slots)), key=lambda i: (-event.confidence[i], event.slots[i]))
    kept = [i for i in surest if event.slots[i] < end]
    slots = torch.tensor([event.slots[i] for i in kept])
    candidate = _places(decoder.slots, slots)
    whole = decoder.uncached(window)
    return JointCommit(
        pass_index=event.pass_index,
        window=whole.wanting(whole.rows[candidate]),
        slots=slots,
        ids=torch.tensor([event.ids[i] for i in kept]),
    )


def _decision(candidates: Tensor, event: Committed | None) -> Tensor:
    """[3, n], what the pass decided: see `Decoder.apply`."""
    decision = torch.zeros((3, candidates.shape[0]), dtype=torch.float64)
    if event is not None:
        at = _places(candidates, torch.tensor(event.slots))
        decision[0, at] = torch.tensor(event.ids, dtype=torch.float64)
        decision[1, at] = torch.tensor(event.confidence, dtype=torch.float64)
        decision[2, at] = 1
    return decision


def _places(candidates: Tensor, slots: Tensor) -> Tensor:
    """[n] int64, where each of some candidates stands among all; a decoder that edits has the open ones first."""
    order = candidates.argsort()
    return order[torch.searchsorted(candidates, slots, sorter=order)]
