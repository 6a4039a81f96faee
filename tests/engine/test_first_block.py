"""A short first block: something to read early, where the model does not care how the canvas is cut."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.tiny import tiny

import anyorder
from anyorder import DecodeParams
from anyorder.errors import ParameterError
from anyorder.events import BlockFinished, Committed, Event

PROMPT = [5, 6, 7, 8, 9]
RUNS: list[dict[str, Any]] = [
    {},
    {"block_length": 6},
    {"block_length": 6, "cache": "prefix"},
    {"block_length": 6, "cache": "dual"},
    {"growth": "block", "block_length": 6},
    {"policy": "sequential"},
    {"temperature": 1.0, "cfg_scale": 0.5},
]


def events(family: str, **params: Any) -> list[Event]:
    return list(anyorder.stream(tiny(family), PROMPT, max_new_tokens=20, stop_ids=(), **params))


@pytest.mark.parametrize("family", ["llada", "dream"])
@pytest.mark.parametrize("params", RUNS)
def test_the_first_block_is_decided_first(family: str, params: dict[str, Any]) -> None:
    if family == "dream":
        params = {name: value for name, value in params.items() if name != "cfg_scale"}
    found = events(family, first_block_length=4, **params)
    spans = [(event.start, event.end) for event in found if isinstance(event, BlockFinished)]
    block = params.get("block_length")
    assert spans == ([(5, 9), (9, 15), (15, 21), (21, 25)] if block else [(5, 9), (9, 25)])
    order = [slot for event in found if isinstance(event, Committed) for slot in event.slots]
    assert sorted(order) == list(range(5, 25))
    assert set(order[:4]) == set(range(5, 9))


@pytest.mark.parametrize("params", RUNS[:5])
def test_as_long_as_the_others_it_changes_nothing(params: dict[str, Any]) -> None:
    """And a first block that is longer than the answer is all of it."""
    for length in [params["block_length"]] if params else [20, 50]:
        ours, theirs = events("llada", first_block_length=length, **params), events("llada", **params)
        assert [e for e in ours if isinstance(e, Committed)] == [e for e in theirs if isinstance(e, Committed)]
        assert ours[-1] == theirs[-1]


def test_holes_are_filled_as_well() -> None:
    answer = anyorder.generate(
        tiny("llada"), [5, anyorder.Hole(3), 7], max_new_tokens=9, first_block_length=2, stop_ids=(), threshold=0.06
    )
    assert len(answer.trace) == 12


@pytest.mark.parametrize(
    ("family", "params", "message"),
    [
        ("sdar", {}, "a block model reads blocks of one length; drop it"),
        ("llama", {"mode": "causal"}, "has a token to read after every pass; drop it"),
        ("llada", {"steps": 4}, "shared among equal blocks, do not go together; drop one"),
    ],
)
def test_where_it_has_no_meaning_it_is_refused(family: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message) as refused:
        anyorder.generate(tiny(family), PROMPT, DecodeParams(first_block_length=4, max_new_tokens=8, **params))
    assert refused.value.param == "first_block_length"
