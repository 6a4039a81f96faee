"""What a caller asks a service for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

from anyorder.canvas import Part
from anyorder.errors import ParameterError
from anyorder.events import Event
from anyorder.params import DecodeParams
from anyorder.scoring import ScoreParams
from anyorder.serving.settings import Priority as Priority


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How a piece of work is to be treated, whatever it is."""

    priority: Priority = "normal"
    """`realtime` goes first, `batch` last; none of them waits for ever."""
    deadline_s: float | None = None
    """Seconds from now after which nobody wants the answer any more; None: no limit."""
    tag: str = ""
    """Names the request in logs."""
    continues: bool = False
    """It goes on with an answer that was let in before: neither a full queue nor a service that drains refuses it."""
    salt: str = ""
    """Prefixes are only shared between works with the same salt, so that time does not tell what others asked."""

    def __post_init__(self) -> None:
        if self.priority not in get_args(Priority):
            known = ", ".join(get_args(Priority))
            raise ParameterError(f"`priority` must be one of {known}, got {self.priority!r}", param="priority")
        if self.deadline_s is not None and not (math.isfinite(self.deadline_s) and self.deadline_s > 0):
            raise ParameterError(f"`deadline_s` must be above 0, got {self.deadline_s!r}", param="deadline_s")


@dataclass(frozen=True, kw_only=True)
class Work(Terms):
    """One answer that is wanted."""

    prompt: Sequence[Part]
    params: DecodeParams = field(default_factory=DecodeParams)
    sample: int = 0
    """Number of the sample under one seed, >= 0: equal work with different numbers gets independent answers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.sample) is not int or not 0 <= self.sample < 2**63:
            raise ParameterError(f"`sample` must be a whole number from 0, got {self.sample!r}", param="sample")


@dataclass(frozen=True, kw_only=True)
class ScoreWork(Terms):
    """A text whose tokens' probabilities are wanted."""

    ids: Sequence[int]
    params: ScoreParams = field(default_factory=ScoreParams)


@dataclass(frozen=True, kw_only=True)
class SeamWork(Terms):
    """A finished answer of which somebody wants to know what each pass lost."""

    events: Sequence[Event]
    """All of the answer's; where its caller ended it, with a Finished at the end all the same."""
    params: DecodeParams
    """Those of the answer."""


AnyWork = Work | ScoreWork | SeamWork
