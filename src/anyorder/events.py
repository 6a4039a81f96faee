"""What a decoder tells the world: plain data, JSON-able through `as_dict`, and the only thing that leaves it.

A stream for one request is `Started`, any number of `Opened`, `Committed`, `Revised`, `Remasked` and `BlockFinished`,
then one `Finished`;
where given text is scored, `Started`, any number of `Scored`, then one `Finished`.
`request` is the index of the request in its batch; slots are absolute indices into the request's canvas.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""

    request: int

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON-able data, with its `type`."""
        return {"type": type(self).__name__.lower(), **asdict(self)}


@dataclass(frozen=True, slots=True)
class Started(Event):
    """The canvas as it stood before the first pass."""

    ids: tuple[int, ...]  # token id of every slot, the mask id where it is open
    open: tuple[int, ...]  # slots to be predicted
    answer_start: int  # first slot of the answer: the prompt's length, holes included


@dataclass(frozen=True, slots=True)
class Opened(Event):
    """The canvas grew: slots `start` to `end - 1` are new and masked, but for those the caller forced."""

    start: int
    end: int
    given: tuple[tuple[int, int], ...] = ()  # (slot, id) of the forced ones


@dataclass(frozen=True, slots=True)
class Decided(Event):
    """Base of the events that say which tokens a pass wrote."""

    pass_index: int  # counted from 0 over all forward passes of the request
    slots: tuple[int, ...]
    ids: tuple[int, ...]
    confidence: tuple[float, ...]  # probability of the id at this pass, in [0, 1]
    alternatives: tuple[tuple[tuple[int, float], ...], ...] = ()
    """Per slot the likeliest (id, probability) of that pass, best first; () unless asked for."""
    provisional: bool = False
    """Later passes may revise these slots until their block is finished."""

    def as_dict(self) -> dict[str, Any]:
        """See `Event.as_dict`; alternatives and provisional are part of it only where there is something to say."""
        silent = {name for name in ("alternatives", "provisional") if not getattr(self, name)}
        return {name: value for name, value in Event.as_dict(self).items() if name not in silent}


@dataclass(frozen=True, slots=True)
class Committed(Decided):
    """One pass decided these open slots; they were drawn from the product of their marginals."""


@dataclass(frozen=True, slots=True)
class Revised(Decided):
    """One pass replaced the tokens that earlier ones had committed in these slots; one that decides all slots of a
    canvas anew says the same tokens again where it found them."""


@dataclass(frozen=True, slots=True)
class Remasked(Event):
    """One pass took back what earlier ones had committed in these slots: they are open again."""

    pass_index: int
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scored(Event):
    """One pass said how probable these given tokens are."""

    slots: tuple[int, ...]
    logprobs: tuple[float, ...]  # natural logarithms; -inf where the token is impossible
    alternatives: tuple[tuple[tuple[int, float], ...], ...] = ()
    """Per slot the likeliest (id, logarithm), best first; () unless asked for."""
    error: float | None = None
    """Standard error of the sum of `logprobs` where random maskings estimate it; None where it is exact."""


@dataclass(frozen=True, slots=True)
class BlockFinished(Event):
    """Every wanted slot of the block `start` to `end - 1` is committed."""

    block: int
    start: int
    end: int
    passes: int  # forward passes of the request so far


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """Nothing more will come for this request."""

    reason: FinishReason
    passes: int  # forward passes in which this request took part (NFE)
    positions: int  # canvas positions computed over all passes
