"""Multi-block editing: a full block corrects the ones before it, and nobody takes for final what still may change."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoders.scripted import MASK, STOP, Script, chooser, drive, revisions
from tests.engine.audit import audited
from tests.engine.requests import prompts
from tests.engine.tiny import tiny

import anyorder
from anyorder.canvas import Canvas, Hole
from anyorder.decoders.edit import Editing
from anyorder.decoders.revisit import Revisiting, RevisitingDecoder
from anyorder.errors import ParameterError
from anyorder.events import BlockFinished, Committed, Event, Finished
from anyorder.params import DecodeParams
from anyorder.request.needs import stored_columns, widest_pass
from anyorder.resolve import resolve
from anyorder.server.streams.answer import Answer
from anyorder.window import Window


def run(
    script: Script,
    prompt: list[int | Hole],
    length: int,
    *,
    earlier: int = 1,
    guard: bool = True,
    scheme: Any = "block",
) -> tuple[list[int], list[Event], list[Window]]:
    """The finished canvas, all events and windows; blocks of 2."""
    canvas = Canvas.from_prompt(prompt, mask_id=MASK)
    decoder = RevisitingDecoder(
        canvas,
        chooser(),
        revisiting=Revisiting(earlier=earlier, max_passes=5),
        editing=Editing(threshold=0.5, cycle_guard=guard),
        end=len(canvas) + length,
        block_length=2,
        stop_ids=(STOP,),
        fuse_write=True,
        scheme=scheme,
    )
    events, windows = drive(decoder, script)
    return canvas.ids.tolist(), events, windows


def finished(events: list[Event]) -> list[tuple[int, int, int]]:
    return [(e.start, e.end, e.passes) for e in events if isinstance(e, BlockFinished)]


def corrects_from(column: int) -> Script:
    """Every slot says 1, and 2 once the canvas reaches beyond `column`."""
    return lambda fed: [(2 if len(fed) > column and MASK not in fed else 1, 0.9)] * len(fed)


def test_a_later_block_corrects_the_one_before() -> None:
    ids, events, windows = run(corrects_from(4), [7, 7], 4)
    assert ids == [7, 7, 2, 2, 2, 2]
    # passes: draft, settled; draft, correction, settled; both blocks together: correction, nothing left
    assert revisions(events) == [(3, (4, 5), (2, 2)), (5, (2, 3), (2, 2))]
    assert finished(events) == [(2, 4, 7), (4, 6, 7)]
    assert [(w.start, w.end, w.adapted) for w in windows[-2:]] == [(2, 6, 0)] * 2


def test_what_is_out_of_reach_stays() -> None:
    ids, events, _ = run(corrects_from(6), [7, 7], 6)
    assert ids == [7, 7, 1, 1, 2, 2, 2, 2]
    assert run(corrects_from(6), [7, 7], 6, earlier=2)[0] == [7, 7, 2, 2, 2, 2, 2, 2]
    assert [(start, end) for start, end, _ in finished(events)] == [(2, 4), (4, 6), (6, 8)]


def test_blocks_are_finished_when_no_later_one_reaches_them() -> None:
    def quiet(fed: list[int]) -> list[tuple[int, float]]:
        return [(1, 0.9)] * len(fed)

    def gone(earlier: int) -> list[tuple[int, int]]:
        _, events, _ = run(quiet, [7, 7], 8, earlier=earlier)
        return [(start, passes) for start, _, passes in finished(events)]

    # a draft and a settled pass per block, and from the second on a pass over the reach
    assert gone(1) == [(2, 5), (4, 8), (6, 11), (8, 11)]
    assert gone(2) == [(2, 8), (4, 11), (6, 11), (8, 11)]


def test_what_was_read_both_ways_is_computed_once_more() -> None:
    """Keys and values of the reach are those of a pass that saw what follows: the next block's first pass feeds it."""
    for earlier, widest in ((1, 6), (2, 8)):
        _, _, windows = run(lambda fed: [(1, 0.9)] * len(fed), [7, 7, 7, 7], 8, earlier=earlier)
        assert max(len(window.ids) for window in windows) == widest
    for before, window in pairwise(windows):
        if before.adapted is not None and window.adapted is None:
            assert window.start == before.start
            assert window.end == before.end + 2


def test_uncached_passes_see_the_same() -> None:
    _, _, windows = run(lambda fed: [(1, 0.9)] * len(fed), [7, 7], 4, scheme="none")
    assert [(w.start, w.end, w.adapted) for w in windows] == [
        (0, 4, None), (0, 4, None), (0, 6, None), (0, 6, None), (0, 6, 2),
    ]  # fmt: skip


def test_given_text_stays_and_a_filled_hole_is_in_reach() -> None:
    """Blocks are counted with the given ones between; a reach begins where a slot may change."""
    ids, events, windows = run(corrects_from(4), [7, Hole(1), 7, 7], 2, earlier=2)
    assert ids == [7, 2, 7, 7, 2, 2]
    assert (windows[-1].start, windows[-1].adapted) == (0, 0)
    assert finished(events) == [(0, 2, 7), (4, 6, 7)]
    ids, _, windows = run(corrects_from(4), [7, Hole(1), 7, 7], 2, earlier=1)
    assert ids == [7, 1, 7, 7, 2, 2]
    assert all(window.adapted is None for window in windows)


def test_blocks_go_in_circles_together() -> None:
    """Read together every token is contradicted; alone every block is settled."""

    def script(fed: list[int]) -> list[tuple[int, float]]:
        return [(3 - token if len(fed) > 4 and MASK not in fed and token in (1, 2) else 1, 0.9) for token in fed]

    def together(guard: bool) -> int:
        return sum(window.adapted is not None for window in run(script, [7, 7], 4, guard=guard)[2])

    assert together(True) == 2
    assert together(False) == 5


def test_a_stop_token_counts_when_the_passes_over_its_reach_are_over() -> None:
    """Its block alone keeps it; read with the one before it is taken back, and the answer goes on."""

    def script(fed: list[int]) -> list[tuple[int, float]]:
        stops = len(fed) == 6 and 3 not in fed
        return (
            [(1, 0.9)] * 2
            + [(3 if len(fed) > 4 and MASK not in fed else 1, 0.9)] * 2
            + [(STOP if stops else 4, 0.9)] * (len(fed) - 4)
        )

    ids, events, _ = run(script, [7, 7], 6)
    assert ids == [7, 7, 3, 3, 4, 4, 4, 4]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "length"


def test_a_stop_token_ends_the_answer_and_finishes_all_blocks() -> None:
    ids, events, _ = run(lambda fed: [(1, 0.9)] * 4 + [(STOP, 0.9)] * (len(fed) - 4), [7, 7], 12, earlier=3)
    assert ids == [7, 7, 1, 1, STOP, STOP]
    assert [(start, end) for start, end, _ in finished(events)] == [(2, 4), (4, 6)]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"


def test_text_is_streamed_when_it_is_final() -> None:
    answer = Answer(decode=lambda ids: "".join(chr(96 + token) for token in ids), stop_ids=(STOP,))
    _, events, _ = run(corrects_from(4), [7, 7], 8)
    texts = [(event.start, text) for event in events for text in (answer.add(event).text,)
             if isinstance(event, BlockFinished)]  # fmt: skip
    assert texts == [(2, "bb"), (4, "bb"), (6, "bb"), (8, "bb")]
    assert not any(answer.add(event).text for event in events if isinstance(event, Committed))


KNOBS: dict[str, st.SearchStrategy[Any]] = {
    "max_new_tokens": st.integers(1, 24),
    "edit_threshold": st.sampled_from([0.0, 0.04, 0.06, 0.1, 1.0]),
    "edit_passes": st.none() | st.integers(1, 4),
    "edit_blocks": st.integers(1, 4),
    "threshold": st.sampled_from([0.0, 0.05, 0.07, 0.9]),
    "block_length": st.sampled_from([1, 2, 4, 5]),
    "temperature": st.sampled_from([0.0, 1.0]),
    "seed": st.integers(0, 9),
    "stop_ids": st.sampled_from([(), (2, 5), tuple(range(6))]),
}


@settings(max_examples=60, deadline=None)
@given(
    prompt=prompts(holes=True),
    params=st.fixed_dictionaries(KNOBS),
    forced=st.dictionaries(st.integers(0, 23), st.integers(0, 19), max_size=4),
)
def test_any_request_keeps_the_rules_and_cached_is_uncached(
    prompt: list[int | Hole], params: dict[str, Any], forced: dict[int, int]
) -> None:
    """Float64: stored columns are those of passes that see nothing later, whatever was corrected behind them."""
    model = tiny("llada2_moe")
    params["forced"] = {offset: token for offset, token in forced.items() if offset < params["max_new_tokens"]}
    runs = [
        audited(anyorder.stream(model, prompt, cache=cache, **params), model, prompt, most_passes=2000)
        for cache in ("block", "none")
    ]
    assert runs[0].ids == runs[1].ids
    assert runs[0].prompt_ids == runs[1].prompt_ids
    assert runs[0].stats.passes == runs[1].stats.passes
    assert runs[0].stats.revised == runs[1].stats.revised


@pytest.mark.parametrize("seed", range(4))
def test_drift_is_none(seed: int) -> None:
    """Every cached pass against the same without a cache, logit for logit."""
    prompt = torch.randint(0, 20, (6,), generator=torch.Generator().manual_seed(seed)).tolist()
    answer = anyorder.generate(
        tiny("llada2_moe"), prompt, max_new_tokens=20, block_length=4, threshold=0.05, edit_threshold=0.0,
        edit_blocks=2, measure_drift=True, stop_ids=(),
    )  # fmt: skip
    assert answer.stats.revised > 0
    assert answer.stats.drift_max is not None
    assert answer.stats.drift_max < 1e-9


def test_blocks_learn_from_later_ones() -> None:
    """What the passes over several blocks change is not what their own block would have changed later."""

    def texts(earlier: int) -> list[tuple[int, ...]]:
        prompts = torch.randint(0, 20, (6, 7), generator=torch.Generator().manual_seed(1)).tolist()
        params = DecodeParams(
            max_new_tokens=20, block_length=4, threshold=0.05, edit_threshold=0.0, edit_blocks=earlier, stop_ids=()
        )
        answers = anyorder.generate_batch(tiny("llada2_moe"), prompts, params)
        return [answer.ids for answer in answers]

    assert texts(0) != texts(1) != texts(2)


@pytest.mark.parametrize("earlier", [1, 3])
def test_a_service_reserves_for_the_widest_pass(earlier: int) -> None:
    model, prompt = tiny("llada2_moe"), [5, 6, 7, 8]
    asked = DecodeParams(
        max_new_tokens=28, block_length=4, threshold=0.05, edit_threshold=0.0, edit_blocks=earlier, stop_ids=()
    )
    stream, params = anyorder.stream(model, prompt, asked), resolve(asked, model)
    decoder, fed, seen = stream.engine.sequences[0].decoder, list[int](), list[int]()
    plan = decoder.plan

    def planned() -> list[Window]:
        windows = plan()
        fed.extend(len(window.ids) for window in windows)
        seen.extend(window.visible for window in windows)
        return windows

    decoder.plan = planned  # type: ignore[method-assign]
    list(stream)
    assert max(fed) == widest_pass(params, 32, holes=0) == (2 + earlier) * 4
    assert widest_pass(params.replace(edit_blocks=10**9), 32, holes=0) == 32 + 2 * 4  # a canvas has no more
    assert max(seen) <= stored_columns(params, 32)


@pytest.mark.parametrize(
    ("family", "params", "part"),
    [
        ("sdar", {"edit_threshold": 0.5}, "correct its own text .LLaDA2.1., and SDAR .* was not"),
        ("llada2_moe", {}, "`edit_blocks` is about edits, which `edit_threshold` switches on"),
        (
            "llada2_moe",
            {"edit_threshold": 0.5, "edit_passes": 0},
            "`edit_passes` 0 leaves no pass in which `edit_blocks`",
        ),
    ],
)
def test_it_is_refused_where_it_makes_no_sense(family: str, params: dict[str, Any], part: str) -> None:
    with pytest.raises(ParameterError, match=part):
        anyorder.generate(tiny(family), [5, 6], max_new_tokens=8, edit_blocks=1, **params)
