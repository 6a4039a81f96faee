"""Every field of DecodeParams in every kind of family: it changes what a caller sees, or it is refused by name.

Canvases of noise have a table of their own: `tests/decoders/test_noise_parameters.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest
from tests.engine.tiny import tiny

import anyorder
from anyorder import DecodeParams, Generation
from anyorder.errors import ParameterError
from anyorder.models.loaded import LoadedModel
from anyorder.resolve import resolve

FAMILIES = ("llada", "dream", "sdar", "fast_dllm_v2", "llada2_moe", "llama", "nemotron_labs_diffusion", "wedlm")
PROMPT = [5, 6, 7, 8, 9, 5, 6, 7, 8]
NOISE = ("t_min", "t_max", "stability_threshold", "confidence_threshold")
"""Fields that no family here has."""
PLAIN: dict[str, Any] = {"max_new_tokens": 16, "stop_ids": ()}
FIRST, LATER = "the first token of the plain answer", "a token that is not"
PROBES: dict[str, list[dict[str, Any]]] = {
    "mode": [{"mode": mode} for mode in ("causal", "full", "block")],
    "policy": [{"policy": policy} for policy in ("random", "sequential")],
    "steps": [{"steps": 2}],
    "threshold": [{"threshold": 0.0}, {"threshold": 0.06}],
    "factor": [{"factor": 1000.0}],
    "entropy_bound": [{"entropy_bound": 1000.0}],
    "entropy_threshold": [{"entropy_threshold": 1000.0}],
    "position_penalty": [{"entropy_threshold": 2.5, "position_penalty": 100.0}],
    "alg_temp": [{"alg_temp": 100.0}],
    "eps": [{"policy": "origin", "steps": 4, "eps": 0.9}],
    "noise": [
        {"policy": "ddpm_cache", "steps": 4, "noise": "cosine"},
        {"policy": "ddpm", "steps": 4, "noise": "square"},
    ],
    "window": [{"window": "sliding"}, {"window": "block"}],
    "block_length": [{"block_length": 2}],
    "sub_block_length": [{"sub_block_length": 2}],
    "edit_threshold": [{"edit_threshold": 0.0}],
    "edit_passes": [{"edit_threshold": 0.0, "edit_passes": 1}],
    "edit_blocks": [{"edit_threshold": 0.0, "edit_blocks": 1}],
    "t_min": [{"t_min": 0.1}],
    "t_max": [{"t_max": 2.0}],
    "stability_threshold": [{"stability_threshold": 3}],
    "confidence_threshold": [{"confidence_threshold": 3.0}],
    "max_new_tokens": [{"max_new_tokens": 9}],
    "first_block_length": [{"block_length": 8, "first_block_length": 3}],
    "growth": [{"block_length": 4, "growth": "block"}],
    "draft": [{"mode": "causal", "draft": draft} for draft in ("lookup", "ngram", "denoiser", "block")],
    "draft_length": [{"mode": "causal", "draft": "lookup", "draft_length": 1}, {"draft_length": 2}],
    "temperature": [{"temperature": 1.0}],
    "top_p": [{"temperature": 2.0, "top_p": 0.2}, {"top_p": 0.2}],
    "top_k": [{"temperature": 2.0, "top_k": 2}, {"top_k": 2}],
    "top_logprobs": [{"top_logprobs": 2}],
    "seed": [{"temperature": 2.0, "seed": 1}],
    "cfg_scale": [{"cfg_scale": 2.0}],
    "cache": [{"cache": cache} for cache in ("none", "block", "prefix", "dual")]
    + [{"cache": "sub_block", "sub_block_length": 4}],
    "measure_drift": [{"measure_drift": True}],
    "stop_ids": [{"stop_ids": (FIRST,)}],
    "logits_eos_inf": [{"logits_eos_inf": True}],
    "confidence_eos_eot_inf": [{"confidence_eos_eot_inf": True}],
    "logit_bias": [{"logit_bias": {FIRST: -100.0}}],
    "banned_ids": [{"banned_ids": (FIRST,)}],
    "forced": [{"forced": {0: LATER}}],
}
"""Per field the ways to ask for it; what stands beside it lets it show."""


def test_every_field_is_probed() -> None:
    assert {field.name for field in dataclasses.fields(DecodeParams)} == set(PROBES)


def answer(model: LoadedModel, **fields: Any) -> Generation:
    return anyorder.generate(model, PROMPT, **PLAIN | fields)


def seen(generation: Generation) -> Any:
    """All but the times."""
    stats = generation.stats
    figures = (stats.passes, stats.positions, stats.blocks, stats.revised, stats.cache, stats.drift_max is None)
    return generation.ids, generation.trace, generation.finish_reason, figures


@functools.cache
def plain(family: str) -> Generation:
    return answer(tiny(family))


def filled(value: Any, family: str) -> Any:
    """The same with tokens of the plain answer."""
    first = plain(family).ids[0]
    tokens = {FIRST: first, LATER: next(id for id in (10, 11) if id != first)}
    match value:
        case dict():
            return {tokens.get(key, key): tokens.get(one, one) for key, one in value.items()}
        case tuple():
            return tuple(tokens[one] for one in value)
        case _:
            return value


@functools.cache
def outcomes(family: str, name: str) -> list[str]:
    """For each probe of a field: refused, by default (it says what holds anyway), honoured or ignored."""
    return [outcome(family, name, {field: filled(value, family) for field, value in p.items()}) for p in PROBES[name]]


def outcome(family: str, name: str, asked: dict[str, Any]) -> str:
    model = tiny(family)
    beside = {field: value for field, value in asked.items() if field != name}
    if "eos" in name:  # the rule is about a token that the model says
        first = plain(family).ids[0]
        model = dataclasses.replace(model, stop_ids=(first, *(id for id in model.stop_ids if id != first)))
    try:
        with_it = answer(model, **asked)
    except ParameterError as error:
        named = error.param in asked and any(field in str(error) for field in asked)
        return "refused" if named else f"refused without its name: {error}"
    if resolve(DecodeParams(**PLAIN | asked), model) == resolve(DecodeParams(**PLAIN | beside), model):
        return "by default"
    return "honoured" if seen(with_it) != seen(answer(model, **beside)) else "ignored"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", PROBES)
def test_a_field_is_honoured_or_refused_by_name(family: str, name: str) -> None:
    assert set(outcomes(family, name)) <= {"honoured", "refused", "by default"}


@pytest.mark.parametrize("name", [name for name in PROBES if name not in NOISE])
def test_the_probes_show_something(name: str) -> None:
    assert any("honoured" in outcomes(family, name) for family in FAMILIES)
