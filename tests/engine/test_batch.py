"""A batch gives every request the answer that it gets alone: ids, passes, and who decided what when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from tests.engine import requests
from tests.engine.published import published
from tests.engine.tiny import tiny

import anyorder
from anyorder import AnyorderError, Generation, Hole
from anyorder.models.loaded import LoadedModel
from anyorder.prompt import Prompt

RAGGED: list[list[int | Hole]] = [[11, 12, 13], [21], [31, 32, 33, 34, 35, 36, 37, 38, 39], [41, 42, 43, 44]]
WITH_HOLES: list[list[int | Hole]] = [[11, Hole(2), 13], [21, 22], [Hole(1), 31, 32, Hole(3), 33], [41]]
SAMPLED: dict[str, Any] = {"temperature": 1.0, "seed": 5}

RUNS: list[tuple[str, dict[str, Any]]] = [
    ("llada", {"policy": "low_confidence", "block_length": 6}),
    ("llada", {"policy": "low_confidence", "steps": 4, "block_length": 6, "cfg_scale": 0.7}),
    ("llada", {"policy": "random", **SAMPLED}),
    ("llada", {"threshold": 0.06, "block_length": 4}),
    ("llada", {"threshold": 0.06, "block_length": 4, "cache": "prefix", **SAMPLED}),
    ("llada", {"factor": 3.0, "block_length": 6, "cache": "dual"}),
    ("llada", {"entropy_bound": 4.0, "growth": "block", "block_length": 5}),
    ("dream", {"policy": "origin", "steps": 6, **SAMPLED}),
    ("dream", {"policy": "maskgit_plus", "steps": 5, "top_p": 0.9, **SAMPLED}),
    ("dream", {"policy": "topk_margin", "steps": 12}),
    ("dream", {"policy": "entropy", "alg_temp": 0.3, "steps": 7, **SAMPLED}),
    ("dream", {"policy": "confidence_threshold", "threshold": 0.1, "steps": 4}),
    ("dream", {"policy": "entropy", "block_length": 4, "cache": "dual"}),
    ("sdar", {"policy": "low_confidence_dynamic", "threshold": 0.1}),
    ("sdar", {"policy": "low_confidence_static", "steps": 2, "cache": "none"}),
    ("sdar", {"policy": "sequential", "top_k": 20, **SAMPLED}),
    ("sdar", {"policy": "entropy_bounded", "entropy_bound": 6.0, "block_length": 6, "sub_block_length": 3}),
    ("fast_dllm_v2", {"threshold": 0.06, "block_length": 8, "sub_block_length": 4}),
    ("fast_dllm_v2", {"threshold": 0.06, "block_length": 8, "sub_block_length": 4, "cache": "sub_block", **SAMPLED}),
    ("llada2_moe", {"threshold": 0.1}),
    ("llada2_moe", {"threshold": 0.1, "edit_threshold": 0.05, "edit_passes": 3}),
    ("llada2_moe", {"threshold": 0.1, "edit_threshold": 0.05, "cache": "none", **SAMPLED}),
    ("llada2_moe", {"threshold": 0.1, "edit_threshold": 0.05, "block_length": 4, "edit_blocks": 2}),
    ("fast_dllm_v2", {"mode": "causal", **SAMPLED}),
    ("fast_dllm_v2", {"mode": "causal", "draft": "ngram", **SAMPLED}),
    ("fast_dllm_v2", {"mode": "causal", "cache": "none", "forced": {1: 9}}),
]


def assert_same(one: Generation, other: Generation) -> None:
    """Everything but the times; confidences up to the last digits of float64."""
    assert one.ids == other.ids
    assert one.prompt_ids == other.prompt_ids
    assert one.finish_reason == other.finish_reason
    counts = ("passes", "tokens", "positions", "blocks", "wasted", "revised", "cache")
    assert [getattr(one.stats, name) for name in counts] == [getattr(other.stats, name) for name in counts]
    assert [(s.slot, s.id, s.commit_pass) for s in one.trace] == [(s.slot, s.id, s.commit_pass) for s in other.trace]
    assert [s.confidence for s in one.trace] == pytest.approx([s.confidence for s in other.trace], abs=1e-6)


def assert_batch_is_single(model: LoadedModel, prompts: list[Prompt], params: dict[str, Any]) -> None:
    params = {"max_new_tokens": 12, **params}
    together = anyorder.generate_batch(model, prompts, **params)
    assert len(together) == len(prompts)
    for prompt, answer in zip(prompts, together, strict=True):
        assert_same(answer, anyorder.generate(model, prompt, **params))
    assert len({answer.ids for answer in together}) > 1


@pytest.mark.parametrize(("family", "params"), RUNS)
def test_a_batch_equals_its_requests_alone(family: str, params: dict[str, Any]) -> None:
    assert_batch_is_single(published(family), list(RAGGED), params)


@pytest.mark.parametrize("family", ["llada", "dream", "sdar", "fast_dllm_v2"])
def test_a_batch_with_holes_equals_its_requests_alone(family: str) -> None:
    assert_batch_is_single(published(family), list(WITH_HOLES), {"policy": "low_confidence_static", "temperature": 0.7})


@settings(max_examples=60)
@given(request=requests.fitting(), neighbour=requests.prompts(holes=False))
def test_any_request_is_the_same_beside_any_neighbour(
    request: tuple[str, list[int | Hole], dict[str, Any]], neighbour: list[int | Hole]
) -> None:
    family, prompt, params = request
    assume(not requests.has_ties(prompt))
    try:
        alone = anyorder.generate(tiny(family), prompt, **params)
        anyorder.stream(tiny(family), neighbour, **params)
    except AnyorderError:
        return
    for prompts in ([prompt, neighbour], [neighbour, prompt]):
        together = anyorder.generate_batch(tiny(family), prompts, **params)
        assert_same(together[prompts.index(prompt)], alone)


def test_a_neighbour_with_holes_does_not_change_the_mode_of_a_causal_model() -> None:
    """It needs any-order decoding; the others stay as they were."""
    model = tiny("llama")
    prompts: list[Prompt] = [[5, 6, 7], [5, Hole(2), 7]]
    causal, any_order = anyorder.generate_batch(model, prompts, max_new_tokens=6, stop_ids=())
    assert_same(causal, anyorder.generate(model, prompts[0], max_new_tokens=6, stop_ids=(), mode="causal"))
    assert_same(any_order, anyorder.generate(model, prompts[1], max_new_tokens=6, stop_ids=(), mode="block"))


def test_requests_of_a_batch_end_at_their_own_time() -> None:
    model = published("sdar")
    answers = anyorder.generate_batch(model, list(RAGGED), max_new_tokens=24, stop_ids=tuple(range(60)))
    assert {answer.finish_reason for answer in answers} == {"stop"}
    assert len({answer.stats.passes for answer in answers}) > 1
    for prompt, answer in zip(RAGGED, answers, strict=True):
        assert_same(answer, anyorder.generate(model, prompt, max_new_tokens=24, stop_ids=tuple(range(60))))


def test_left_padded_rows_equal_the_rows_without_padding() -> None:
    model = published("llada")
    rows = [[0, 0, 11, 12], [21, 22, 23, 24], [0, 0, 0, 31]]
    mask = [[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]]
    padded = anyorder.generate_batch(model, rows, attention_mask=mask, max_new_tokens=6)
    for answer, prompt in zip(padded, ([11, 12], [21, 22, 23, 24], [31]), strict=True):
        assert_same(answer, anyorder.generate(model, prompt, max_new_tokens=6))


def test_the_same_request_twice_in_a_batch_gets_the_same_answer() -> None:
    """Randomness depends on seed, slot and pass, not on the place in the batch."""
    model = published("llada")
    first, _, last = anyorder.generate_batch(model, [[11, 12], [21], [11, 12]], max_new_tokens=8, **SAMPLED)
    assert_same(first, last)


@pytest.mark.parametrize("family", ["llada", "fast_dllm_v2"])
def test_seeds_give_other_answers_and_the_same_seed_the_same(family: str) -> None:
    model = published(family)
    answers = [anyorder.generate(model, [11, 12], max_new_tokens=8, temperature=1.0, seed=s).ids for s in (0, 1, 0)]
    assert answers[0] == answers[2] != answers[1]
