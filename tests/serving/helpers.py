"""A service on tiny models, and what its answers are held against."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from anyorder import DecodeParams, Hole
from anyorder.api import EventStream
from anyorder.events import Committed, Event, Finished
from anyorder.models.loaded import LoadedModel
from anyorder.prompt import encode_prompt
from anyorder.serving import Service, ServiceSettings, Work

SMALL = ServiceSettings(kv_bytes=1 << 18)


@contextmanager
def serving(model: LoadedModel, settings: ServiceSettings = SMALL) -> Generator[Service]:
    """A running service; behind it no columns may be left in use."""
    service = Service(model, settings)
    service.start()
    try:
        yield service
    finally:
        service.stop()
        status = service.status()
        assert (status.columns_used, status.running, status.queued, status.alive) == (0, 0, 0, False)


def alone(model: LoadedModel, work: Work) -> list[Event]:
    """The events of the same request in an engine of its own."""
    prompt = encode_prompt(model, work.prompt)
    return list(EventStream(model, [prompt], work.params, samples=[work.sample]))


def assert_same(
    events: Sequence[Event], expected: Sequence[Event], *, passes: bool = True, tolerance: float = 1e-6
) -> None:
    """The same events in the same order; confidences up to the last digits.

    Args:
        passes: False where passes are saved by what was kept, or added by chunks of the prompt.
        tolerance: of a confidence; the default is for float64.
    """
    ours, theirs = [_bare(e, passes=passes) for e in events], [_bare(e, passes=passes) for e in expected]
    assert ours == theirs
    confidences = [[c for e in all if isinstance(e, Committed) for c in e.confidence] for all in (events, expected)]
    assert confidences[0] == pytest.approx(confidences[1], abs=tolerance)


def _bare(event: Event, *, passes: bool) -> dict[str, Any]:
    bare = replace(event, request=0).as_dict()
    bare.pop("confidence", None)
    if not passes:
        for name in ("pass_index", "passes", "positions"):
            bare.pop(name, None)
    return bare


def finish(events: Sequence[Event]) -> Finished:
    last = events[-1]
    assert isinstance(last, Finished)
    return last


def work(prompt: Sequence[int | Hole], *, priority: Any = "normal", sample: int = 0, **params: Any) -> Work:
    decode = DecodeParams.of(DecodeParams(max_new_tokens=12), **params)
    return Work(prompt=prompt, params=decode, sample=sample, priority=priority)
