"""Pictures in a service: chunks, kept prefixes and evictions neither cut them in two nor take one for another."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.models.pictures import BEGIN, END, SLOT, painted, write
from tests.serving.helpers import alone, assert_same
from tests.serving.steps import Steps, events_of
from tests.serving.test_eviction import columns

import anyorder
from anyorder import DecodeParams
from anyorder.canvas import Part, count_slots
from anyorder.engine.prefill import Prefill
from anyorder.pictures import Picture, Placed, digest_of
from anyorder.prompt import encode_prompt
from anyorder.serving import ServiceSettings, Work

pytest.importorskip("transformers.models.diffusion_gemma")
MODES: dict[str, dict[str, Any]] = {"canvas": {"steps": 3}, "causal": {"mode": "causal"}}
KEEPING = ServiceSettings(kv_bytes=1 << 22, prefix_share=0.5, prefix_unit=8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> anyorder.LoadedModel:
    folder = tmp_path_factory.mktemp("pictures")
    write(folder)
    return anyorder.load(folder, dtype="float64")


def asking(model: anyorder.LoadedModel, *parts: Any, **params: Any) -> Work:
    prompt = [part if isinstance(part, int) else anyorder.Image(part) for part in parts]
    wanted = {"max_new_tokens": 10, "stop_ids": ()} | params
    return Work(prompt=encode_prompt(model, prompt), params=DecodeParams.of(None, **wanted))


def answered(steps: Steps, work: Work) -> Any:
    ticket = steps.submit(work)
    steps.run()
    return ticket


@pytest.mark.parametrize("params", MODES.values(), ids=MODES.keys())
@pytest.mark.parametrize("chunk", [1, 8, 70, 80])
def test_chunks_end_between_pictures(model: anyorder.LoadedModel, params: dict[str, Any], chunk: int) -> None:
    steps = Steps(model, ServiceSettings(kv_bytes=1 << 22, prefix_share=0.0, prefill_tokens=chunk))
    work = asking(model, 5, 6, painted(40, 40), 7, painted(90, 30, 1), 8, **params)
    ticket = answered(steps, work)
    assert_same(events_of(ticket), alone(model, work), passes=False)


@pytest.mark.parametrize("params", MODES.values(), ids=MODES.keys())
def test_equal_ids_with_other_images_share_what_is_in_front_of_them(
    model: anyorder.LoadedModel, params: dict[str, Any]
) -> None:
    """Guards against answers about somebody else's image: both prompts have the same ids from end to end."""
    front = list(range(10, 34))
    first, second = (asking(model, *front, painted(40, 40, seed), 7, 8, **params) for seed in (0, 1))
    slots = [count_slots(work.prompt) for work in (first, second)]
    assert slots[0] == slots[1]
    steps = Steps(model, KEEPING)
    answered(steps, first)
    other, same = answered(steps, second), answered(steps, first)
    assert other.cached_tokens == 24
    assert same.cached_tokens > 24 + 60
    assert_same(events_of(other), alone(model, second), passes=False)
    assert_same(events_of(same), alone(model, first), passes=False)


@pytest.mark.parametrize("params", MODES.values(), ids=MODES.keys())
def test_a_prefix_that_ends_inside_a_picture_is_gone_on_from(
    model: anyorder.LoadedModel, params: dict[str, Any]
) -> None:
    """The rest of the picture sees its beginning, which was computed with all of it."""
    steps = Steps(model, ServiceSettings(kv_bytes=1 << 22, prefix_share=0.5, prefix_unit=40))
    answered(steps, asking(model, 5, painted(40, 40), **params))
    again = asking(model, 5, painted(40, 40), **params)
    ticket = answered(steps, again)
    assert ticket.cached_tokens == 40
    assert_same(events_of(ticket), alone(model, again), passes=False)


@pytest.mark.parametrize("params", MODES.values(), ids=MODES.keys())
def test_an_answer_that_was_interrupted_is_the_same(model: anyorder.LoadedModel, params: dict[str, Any]) -> None:
    patient = asking(model, 5, painted(40, 40), 6, painted(30, 60, 2), 7, **params)
    patient = Work(prompt=patient.prompt, params=patient.params, priority="batch")
    urgent = Work(prompt=[5, 6], params=DecodeParams(max_new_tokens=3, stop_ids=(), mode="causal"), priority="realtime")
    expected = alone(model, patient)
    needs = Steps(model, KEEPING)
    needs.submit(patient)
    for passes in (1, 2, 4):
        steps = Steps(model, columns(model, needs.jobs[0].columns + 2, prefill_tokens=20))
        first = steps.submit(patient)
        steps.step(passes)
        steps.submit(urgent)
        steps.run()
        assert steps.scheduler.metrics.evicted == 1
        assert_same(events_of(first), expected, passes=False)


def test_a_batch_of_texts_and_images(model: anyorder.LoadedModel) -> None:
    steps = Steps(model, KEEPING)
    works = [
        asking(model, 5, painted(40, 40), 6, steps=3),
        asking(model, 5, 6, 7, mode="causal"),
        asking(model, painted(90, 30, 1), 7, mode="causal"),
        asking(model, 9, 8, steps=3),
    ]
    tickets = [steps.submit(work) for work in works]
    steps.run()
    for work, ticket in zip(works, tickets, strict=True):
        assert_same(events_of(ticket), alone(model, work), passes=False)


@pytest.mark.parametrize("chunk", range(1, 14))
def test_no_chunk_cuts_a_picture(chunk: int) -> None:
    pixels, positions = torch.zeros(5, 3), torch.zeros(5, 2, dtype=torch.int64)
    picture = Picture(length=5, token_id=SLOT, pixels=pixels, positions=positions, digest=digest_of(pixels, positions))
    prompt: list[Part] = [1, 2, BEGIN, picture, END, 3, BEGIN, picture, END, 4]
    pictures = (Placed(picture, 3), Placed(picture, 11))
    prefill = Prefill(
        attention="causal", block_length=1, chunk=chunk, columns=count_slots(prompt), whole=True, pictures=pictures
    )
    stored, ends = 0, list[int]()
    while step := prefill.tokens(stored):
        stored += step
        ends.append(stored)
    assert ends[-1] == count_slots(prompt)
    assert not any(placed.start < end < placed.end for end in ends for placed in pictures)
