"""Which slots are to be predicted is known from who wrote them: a mask id in a prompt is text.

Published samplers ask `ids == mask_id`. They rewrite such a prompt, and can leave masks in the answer because their
schedule did not count the prompt's; the recorded case below shows both.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.engine.audit import audited
from tests.engine.published import FOLDER, published

import anyorder
from anyorder import Hole

RUNS: list[tuple[str, dict[str, Any]]] = [
    ("llada", {}),
    ("llada", {"block_length": 4, "steps": 6}),
    ("llada", {"threshold": 0.1, "cache": "prefix", "block_length": 4}),
    ("llada", {"threshold": 0.1, "cache": "dual", "block_length": 4}),
    ("llada", {"cfg_scale": 1.0}),
    ("llada", {"growth": "block", "block_length": 4}),
    ("dream", {}),
    ("dream", {"policy": "origin", "steps": 6, "temperature": 1.0}),
    ("dream", {"policy": "confidence_threshold", "threshold": 0.1}),
    ("dream", {"cache": "dual", "block_length": 4}),
    ("sdar", {}),
    ("sdar", {"policy": "sequential", "cache": "none"}),
    ("fast_dllm_v2", {"block_length": 8}),
    ("fast_dllm_v2", {"block_length": 8, "sub_block_length": 4, "cache": "sub_block"}),
    ("fast_dllm_v2", {"mode": "causal"}),
]


@pytest.mark.parametrize(("family", "params"), RUNS)
def test_a_mask_id_in_a_prompt_stays(family: str, params: dict[str, Any]) -> None:
    """At its beginning, inside, in front of the answer; in a finished block and in the answer's own."""
    model = published(family)
    mask = model.mask_token_id
    assert mask is not None
    prompt = [mask, 11, 12, mask, mask, 13, 14, 15, 16, 17, 18, 19, 20, mask]
    stream = anyorder.stream(model, prompt, max_new_tokens=12, stop_ids=(), **params)
    answer = audited(stream, model, prompt)
    assert list(answer.prompt_ids) == prompt
    assert len(answer.ids) == 12
    assert params.get("mode") == "causal" or mask not in answer.ids
    assert all(slot.slot >= len(prompt) for slot in answer.trace)


@pytest.mark.parametrize("family", ["llada", "dream", "sdar", "fast_dllm_v2"])
def test_a_hole_is_filled_and_a_mask_id_beside_it_is_not(family: str) -> None:
    model = published(family)
    mask = model.mask_token_id
    assert mask is not None
    prompt: list[int | Hole] = [11, mask, Hole(2), mask, 12]
    answer = audited(anyorder.stream(model, prompt, max_new_tokens=0), model, prompt)
    assert [i for i, token in enumerate(answer.prompt_ids) if token == mask] == [1, 4]
    assert [slot.slot for slot in answer.trace] == [2, 3]
    assert answer.ids == ()


def test_the_published_sampler_rewrites_the_prompt_and_ours_does_not() -> None:
    cases = json.loads((FOLDER / "llada" / "decode.json").read_text())["cases"]
    case = next(case for case in cases if case["name"] == "mask_in_prompt")
    (prompt,), (published_ids,), params = case["prompt_ids"], case["output_ids"], case["params"]
    masks = [slot for slot, token in enumerate(prompt) if token == params["mask_id"]]
    assert masks
    assert all(published_ids[slot] != params["mask_id"] for slot in masks)
    assert params["mask_id"] in published_ids[len(prompt) :]
    names = {"gen_length": "max_new_tokens", "steps": "steps", "block_length": "block_length"}
    answer = anyorder.generate(
        published("llada"), prompt, stop_ids=(), **{ours: params[theirs] for theirs, ours in names.items()}
    )
    assert list(answer.prompt_ids) == prompt
    assert params["mask_id"] not in answer.ids
    assert answer.stats.passes == params["steps"]
    # with holes instead, every one of them is filled
    holes = [Hole(1) if token == params["mask_id"] else token for token in prompt]
    filled = anyorder.generate(
        published("llada"), holes, stop_ids=(), **{ours: params[theirs] for theirs, ours in names.items()}
    )
    assert params["mask_id"] not in (*filled.prompt_ids, *filled.ids)
