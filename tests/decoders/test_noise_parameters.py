"""Every field of DecodeParams on a canvas of noise: it changes what happens, or it is refused by name."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest

import anyorder
from anyorder import DecodeParams, Generation
from anyorder.errors import ParameterError
from anyorder.models.loaded import LoadedModel

FOLDER = Path(__file__).parents[1] / "reference" / "diffusion_gemma"
PROMPT = [3, 5, 8, 13]
PLAIN: dict[str, Any] = {"max_new_tokens": 20, "steps": 6, "stop_ids": ()}


@functools.cache
def gemma() -> LoadedModel:
    return anyorder.load(FOLDER, dtype="float64", verify=False)


def answer(**fields: Any) -> Generation:
    return anyorder.generate(gemma(), PROMPT, **PLAIN | fields)


@functools.cache
def plain() -> Generation:
    return answer()


def seen(generation: Generation) -> Any:
    """What a caller sees of an answer, but for the times."""
    stats = generation.stats
    figures = (stats.passes, stats.positions, stats.blocks, stats.revised, stats.drift_max is None)
    return generation.ids, generation.trace, generation.finish_reason, figures


FIRST = functools.cache(lambda: plain().ids[0])
HONOURED: dict[str, list[Any]] = {
    "mode": ["causal"],
    "steps": [3, 60],
    "entropy_bound": [0.0, 100.0],
    "block_length": [8],
    "t_min": [0.05],
    "t_max": [2.0],
    "stability_threshold": [0],
    "confidence_threshold": [100.0],
    "max_new_tokens": [7],
    "temperature": [0.1, 1.0],
    "top_p": [0.2],
    "top_k": [1, 3],
    "top_logprobs": [2],
    "seed": [1],
    "cache": ["none"],
    "measure_drift": [True],
    "stop_ids": ["first"],
    "logits_eos_inf": [True],
    "logit_bias": ["first"],
    "banned_ids": ["first"],
    "forced": ["first"],
}
"""What each of these does differently; "first" is made of the plain answer's first token."""
COMPANIONS: dict[str, dict[str, Any]] = {
    "mode": {"steps": None},
    "stability_threshold": {"steps": 40, "confidence_threshold": 100.0},
    "confidence_threshold": {"steps": 40},
}
"""Fields that let a field show."""
REFUSED: dict[str, Any] = {
    "policy": "entropy",
    "threshold": 0.9,
    "factor": 1.0,
    "entropy_threshold": 0.4,
    "position_penalty": 0.02,
    "window": "sliding",
    "alg_temp": 0.5,
    "eps": 0.5,
    "noise": "cosine",
    "sub_block_length": 4,
    "edit_threshold": 0.5,
    "edit_passes": 3,
    "edit_blocks": 1,
    "first_block_length": 4,
    "growth": "block",
    "draft": "ngram",
    "draft_length": 3,
    "cfg_scale": 1.0,
    "confidence_eos_eot_inf": True,
}


def test_every_field_is_honoured_or_refused() -> None:
    assert {field.name for field in dataclasses.fields(DecodeParams)} == {*HONOURED, *REFUSED}


def made(name: str, value: Any) -> Any:
    if value != "first":
        return value
    token = FIRST()
    return {"logit_bias": {token: -100.0}, "forced": {0: (token + 1) % 90}}.get(name, (token,))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in HONOURED.items() for value in values])
def test_a_field_that_is_taken_changes_what_happens(name: str, value: Any) -> None:
    beside = COMPANIONS.get(name, {})
    if name == "logits_eos_inf":
        model = dataclasses.replace(gemma(), stop_ids=(FIRST(),))
        ask = dict(PLAIN, stop_ids=None)
        assert seen(anyorder.generate(model, PROMPT, **ask)) != seen(
            anyorder.generate(model, PROMPT, logits_eos_inf=True, **ask)
        )
        return
    assert seen(answer(**beside)) != seen(answer(**beside | {name: made(name, value)}))


@pytest.mark.parametrize("name", REFUSED)
def test_a_field_that_means_nothing_here_is_refused_by_name(name: str) -> None:
    edits = {"edit_threshold": 0.5} if name in ("edit_passes", "edit_blocks") else {}
    with pytest.raises(ParameterError) as caught:
        answer(**edits | {name: REFUSED[name]})
    assert caught.value.param in (name, *edits)
    assert "noise" in str(caught.value) or f"`{name}`" in str(caught.value)
