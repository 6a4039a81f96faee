"""The public functions: one stream, and everything else a fold of it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings
from tests.engine import requests
from tests.engine.audit import audited
from tests.engine.talk import talking
from tests.engine.tiny import tiny

import anyorder
from anyorder import AnyorderError, DecodeParams, Hole
from anyorder.errors import ParameterError
from anyorder.events import Finished, Started


@settings(max_examples=200)
@given(request=requests.anything())
def test_any_parameters_give_a_complete_answer_or_one_line(
    request: tuple[str, list[int | Hole], dict[str, Any]],
) -> None:
    """Never a traceback, never a hang, never an ignored rule."""
    family, prompt, params = request
    model, refusal = tiny(family), None
    try:
        stream = anyorder.stream(model, prompt, **params)
    except AnyorderError as error:
        refusal = str(error)
    else:
        audited(stream, model, prompt)
    assert refusal is None or ("\n" not in refusal and len(refusal) > 20)


def test_generate_is_the_fold_of_stream() -> None:
    model, params = tiny("sdar"), DecodeParams(max_new_tokens=9, stop_ids=())
    stream = anyorder.stream(model, [5, 6], params)
    events = list(stream)
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    assert sum(isinstance(event, Finished) for event in events) == 1
    (streamed,) = stream.generations()
    generated = anyorder.generate(model, [5, 6], params)
    assert (streamed.ids, streamed.trace) == (generated.ids, generated.trace)


def test_a_stream_can_be_read_in_part_and_then_folded() -> None:
    stream = anyorder.stream(tiny("llada"), [5, 6], max_new_tokens=6, stop_ids=())
    for _ in range(3):
        next(stream)
    assert len(stream.generations()[0].ids) == 6
    assert list(stream) == []


@pytest.mark.parametrize("family", ["llada", "sdar", "llama"])
def test_two_streams_of_one_model_do_not_disturb_each_other(family: str) -> None:
    model, prompts = tiny(family), ([5, 6, 7], [8, 9])
    streams = [anyorder.stream(model, prompt, max_new_tokens=8, stop_ids=()) for prompt in prompts]
    running = list(streams)
    while running:
        running = [stream for stream in running if next(stream, None)]
    for prompt, stream in zip(prompts, streams, strict=True):
        alone = anyorder.generate(model, prompt, max_new_tokens=8, stop_ids=())
        assert stream.generations()[0].ids == alone.ids


def test_nothing_runs_before_the_first_event_is_asked_for() -> None:
    stream = anyorder.stream(tiny("llada"), [5, 6], max_new_tokens=6)
    assert isinstance(next(stream), Started)
    assert stream.engine.clock.passes == 0


def test_changes_replace_fields_of_the_given_parameters() -> None:
    params = DecodeParams(max_new_tokens=3, temperature=1.0, seed=1, stop_ids=())
    model = tiny("llada")
    changed = anyorder.generate(model, [5, 6], params, seed=2)
    assert changed.ids == anyorder.generate(model, [5, 6], params.replace(seed=2)).ids
    assert params.seed == 1


def test_a_batch_keeps_the_order_of_its_prompts() -> None:
    prompts: list[list[int]] = [[5], [6, 7], [8, 9, 10]]
    answers = anyorder.generate_batch(tiny("llada"), prompts, max_new_tokens=3)
    assert [list(answer.prompt_ids) for answer in answers] == prompts


def test_infill_writes_nothing_behind_the_text_unless_asked() -> None:
    model = talking("llada")
    parts: list[int | str | Hole] = ["8 9", Hole(2), "10"]
    assert anyorder.infill(model, parts).ids == ()
    longer = anyorder.infill(model, parts, max_new_tokens=3, stop_ids=())
    assert len(longer.ids) == 3
    assert len(longer.prompt_ids) == 5


@pytest.mark.parametrize("family", ["llada", "dream", "sdar", "fast_dllm_v2", "llama"])
def test_every_family_fills_holes(family: str) -> None:
    prompt: list[int | Hole] = [Hole(1), 5, 6, Hole(3), 7, 8, 9, Hole(1)]
    model = tiny(family)
    answer = audited(anyorder.stream(model, prompt, max_new_tokens=0), model, prompt)
    assert len(answer.trace) == 5
    assert len(answer.holes) == 3
    assert answer.finish_reason == "length"


@pytest.mark.parametrize("family", ["llada", "sdar", "llama"])
def test_one_slot_is_an_answer(family: str) -> None:
    answer = anyorder.generate(tiny(family), [5], max_new_tokens=1, stop_ids=())
    assert len(answer.ids) == 1


def test_the_same_call_gives_the_same_answer() -> None:
    params: dict[str, Any] = {"max_new_tokens": 8, "temperature": 1.0, "seed": 7, "stop_ids": ()}
    answers = {anyorder.generate(tiny("dream"), [5, 6], **params).ids for _ in range(3)}
    assert len(answers) == 1


def test_seeds_matter_when_sampling_and_not_otherwise() -> None:
    def answers(temperature: float) -> set[tuple[int, ...]]:
        return {
            anyorder.generate(
                tiny("llada"), [5, 6], max_new_tokens=8, temperature=temperature, seed=seed, stop_ids=()
            ).ids
            for seed in range(4)
        }

    assert len(answers(1.0)) > 1
    assert len(answers(0.0)) == 1


def test_the_exported_names_exist() -> None:
    for name in anyorder.__all__:
        assert getattr(anyorder, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'generat'"):
        anyorder.generat  # type: ignore[attr-defined]  # noqa: B018


def test_equal_prompts_with_different_sample_numbers_get_independent_answers() -> None:
    """One seed, many samples; the answer of a number does not depend on its neighbours."""
    model, prompt = tiny("llada"), [5, 6, 7]
    options: dict[str, Any] = {"max_new_tokens": 12, "temperature": 1.0, "stop_ids": ()}
    several = anyorder.generate_batch(model, [prompt] * 3, samples=[0, 1, 2], **options)
    assert len({answer.ids for answer in several}) == 3
    assert anyorder.generate_batch(model, [prompt], samples=[2], **options)[0].ids == several[2].ids
    assert anyorder.generate(model, prompt, **options).ids == several[0].ids
    for wrong in ([0], [0, 1, -1], [0, 1, 2**63], [0, 1, "2"], [0, 1, 2.0], 3, "012"):
        with pytest.raises(ParameterError, match="`samples` needs a number >= 0 for each of the 3 prompts"):
            anyorder.generate_batch(model, [prompt] * 3, samples=cast(Any, wrong), **options)


@pytest.mark.parametrize("name", ["top_p", "top_k"])
def test_a_filter_that_changes_nothing_is_refused(name: str) -> None:
    filters: dict[str, Any] = {name: 0.9 if name == "top_p" else 3}
    with pytest.raises(ParameterError, match=f"`{name}` changes nothing at temperature 0 here"):
        anyorder.generate(tiny("llada"), [5], **filters)
    with pytest.raises(ParameterError, match=f"`{name}` changes nothing"):
        anyorder.generate(tiny("llama"), [5], **filters)
    anyorder.generate(tiny("dream"), [5], max_new_tokens=4, **filters)  # shapes Dream's confidence


def test_infill_writes_behind_the_text_only_when_asked() -> None:
    model, parts = tiny("llada"), [5, Hole(2), 6]
    assert anyorder.infill(model, parts, stop_ids=()).ids == ()  # pyright: ignore[reportArgumentType]
    assert len(anyorder.infill(model, parts, max_new_tokens=3, stop_ids=()).ids) == 3  # pyright: ignore[reportArgumentType]
    asked = DecodeParams(max_new_tokens=4, stop_ids=())
    assert len(anyorder.infill(model, parts, asked).ids) == 4  # pyright: ignore[reportArgumentType]
