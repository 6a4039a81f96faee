"""Exact caches change nothing, approximate ones say by how much they do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from tests.engine import requests
from tests.engine.published import published
from tests.engine.test_batch import assert_same
from tests.engine.tiny import MASK, tiny
from torch import Tensor

import anyorder
from anyorder import AnyorderError, Hole
from anyorder.cache.schemes import SCHEMES
from anyorder.runner import Runner
from anyorder.window import Window

PROMPT: list[int | Hole] = [11, 12, 13, 14, 15, 16, 17, 18, 19]

EXACT: list[tuple[str, dict[str, Any]]] = [
    ("sdar", {"policy": "low_confidence_dynamic", "threshold": 0.2}),
    ("sdar", {"policy": "sequential", "temperature": 1.0}),
    ("sdar", {"block_length": 6, "sub_block_length": 2}),
    ("fast_dllm_v2", {"threshold": 0.06, "block_length": 8, "sub_block_length": 4}),
    ("fast_dllm_v2", {"threshold": 0.06, "block_length": 4, "temperature": 1.0}),
    ("fast_dllm_v2", {"mode": "causal", "temperature": 1.0}),
]


@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:4], PROMPT[:1], [11, Hole(2), 12, 13, 14, Hole(1), 15]])
@pytest.mark.parametrize(("family", "params"), EXACT)
def test_an_exact_cache_gives_the_answer_of_no_cache(family: str, params: dict[str, Any], prompt: list[Any]) -> None:
    if params.get("mode") == "causal":
        prompt = [token for token in prompt if isinstance(token, int)]
    model = published(family)
    params = {"max_new_tokens": 14, "stop_ids": (), **params}
    cached = anyorder.generate(model, prompt, cache="block", measure_drift=True, **params)
    plain = anyorder.generate(model, prompt, cache="none", **params)
    assert (cached.ids, cached.prompt_ids) == (plain.ids, plain.prompt_ids)
    assert [(s.slot, s.id) for s in cached.trace] == [(s.slot, s.id) for s in plain.trace]
    assert [s.confidence for s in cached.trace] == pytest.approx([s.confidence for s in plain.trace], abs=1e-6)
    assert cached.stats.passes == plain.stats.passes
    assert cached.stats.exact
    assert cached.stats.drift_max is not None
    assert cached.stats.drift_max < 1e-9
    assert cached.stats.positions < plain.stats.positions


def without_cache(params: dict[str, Any]) -> dict[str, Any]:
    return {name: v for name, v in params.items() if not name.startswith(("draft", "measure"))} | {"cache": "none"}


@settings(max_examples=100)
@given(request=requests.fitting())
def test_any_request_is_the_same_with_and_without_an_exact_cache(
    request: tuple[str, list[int | Hole], dict[str, Any]],
) -> None:
    family, prompt, params = request
    assume(params["cache"] == "block" and not requests.has_ties(prompt))
    measured: dict[str, Any] = params | {"measure_drift": True}
    try:
        cached = anyorder.generate(tiny(family), prompt, **measured)
    except AnyorderError:
        return
    plain = anyorder.generate(tiny(family), prompt, **without_cache(params))
    assert (cached.ids, cached.prompt_ids) == (plain.ids, plain.prompt_ids)
    if "draft" not in params:
        decided = [[(s.slot, s.id, s.commit_pass) for s in answer.trace] for answer in (cached, plain)]
        assert decided[0] == decided[1]
    assert cached.stats.drift_max is not None
    assert cached.stats.drift_max < 1e-9


APPROXIMATE: list[tuple[str, dict[str, Any]]] = [
    ("llada", {"cache": "prefix", "block_length": 4}),
    ("llada", {"cache": "dual", "block_length": 4}),
    ("dream", {"cache": "prefix", "block_length": 4}),
    ("dream", {"cache": "dual", "block_length": 4}),
    ("fast_dllm_v2", {"cache": "sub_block", "block_length": 8, "sub_block_length": 4, "threshold": 0.9}),
]


@pytest.mark.parametrize(("family", "params"), APPROXIMATE)
def test_an_approximate_cache_reports_its_drift(family: str, params: dict[str, Any]) -> None:
    model = published(family)
    measured = anyorder.generate(model, PROMPT, max_new_tokens=12, measure_drift=True, **params)
    stats = measured.stats
    assert not stats.exact
    assert stats.drift_max is not None
    assert stats.drift_mean is not None
    assert stats.drift_max > stats.drift_mean > 1e-6
    # measuring watches and changes nothing
    plain = anyorder.generate(model, PROMPT, max_new_tokens=12, **params)
    assert_same(measured, plain)
    assert plain.stats.drift_max is None


def test_drift_is_the_difference_to_an_uncached_pass() -> None:
    """By hand: every pass again on a whole canvas that stores nothing."""
    model = published("llada")
    stream = anyorder.stream(model, PROMPT, max_new_tokens=8, block_length=4, cache="dual", measure_drift=True)
    differences: list[Tensor] = []
    forward = stream.runner.forward

    def watched(windows: Any, storages: Any) -> list[Tensor]:
        canvas = stream.engine.sequences[0].decoder.canvas
        rows = forward(windows, storages)
        window = windows[0]
        whole = Window(
            ids=canvas.ids, start=0, visible=len(canvas), rows=window.rows + window.start, attention="bidirectional",
            stores=False,
        )  # fmt: skip
        (exact,) = Runner(model.network).forward([whole], [None])
        differences.append((rows[0] - exact).abs())
        return rows

    stream.runner.forward = watched
    stats = stream.generations()[0].stats
    entries = torch.cat([difference.flatten() for difference in differences])
    assert stats.drift_max == pytest.approx(float(entries.max()))
    assert stats.drift_mean == pytest.approx(float(entries.mean()))


@pytest.mark.parametrize("draft", ["lookup", "ngram"])
def test_a_draft_is_measured_against_the_draft(draft: str) -> None:
    """Not against the open slots it stands in, which a model without a mask token cannot even feed."""
    model = tiny("llama", mask_token_id=None)
    answer = anyorder.generate(
        model, [5, 6, 5, 6, 5, 6], max_new_tokens=12, draft=draft, measure_drift=True, stop_ids=()
    )
    assert answer.stats.drift_max is not None
    assert answer.stats.drift_max < 1e-9


@pytest.mark.parametrize("block_length", [1, 3, 8])
@pytest.mark.parametrize("length", [1, 7, 8])
def test_an_autoregressive_model_from_left_to_right_in_blocks_says_what_it_says_causally(
    block_length: int, length: int
) -> None:
    model, prompt = tiny("llama"), [5 + i for i in range(length)]
    blocks = anyorder.generate(
        model, prompt, mode="block", policy="sequential", block_length=block_length, max_new_tokens=13, stop_ids=()
    )
    causal = anyorder.generate(model, prompt, mode="causal", max_new_tokens=13, stop_ids=(), banned_ids=(MASK,))
    assert blocks.ids == causal.ids
    assert [s.confidence for s in blocks.trace] == pytest.approx([s.confidence for s in causal.trace], abs=1e-6)


def test_block_caches_are_exact_and_canvas_caches_are_not() -> None:
    """A false promise would let `exact` in the figures lie."""
    assert {name for name, info in SCHEMES.items() if info.exact} == {"none", "block"}
