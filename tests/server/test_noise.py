"""Canvases of noise over HTTP: what OpenAI's clients send by themselves is honoured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.engine.talk import NumberTokenizer
from tests.server.live import Live, live

import anyorder
from anyorder import DecodeParams
from anyorder.errors import ParameterError
from anyorder.models.loaded import LoadedModel
from anyorder.seams import measure_seams
from anyorder.server.wire.common import EXTENSIONS

FOLDER = Path(__file__).parents[1] / "reference" / "diffusion_gemma"
MESSAGES = [{"role": "user", "content": "7 8 9"}]
ASKED: dict[str, Any] = {"max_tokens": 20, "ignore_eos": True, "seed": 3, "diffusion": {"steps": 5}}
PARAMS = DecodeParams(max_new_tokens=20, steps=5, stop_ids=(), seed=3)


@pytest.fixture(scope="module")
def gemma() -> LoadedModel:
    model = anyorder.load(FOLDER, dtype="float32", verify=False)
    return replace(model, tokenizer=cast(Any, NumberTokenizer()), source="tiny gemma")


@pytest.fixture(scope="module")
def server(gemma: LoadedModel) -> Iterator[Live]:
    with live(gemma) as running:
        yield running


@pytest.mark.parametrize("given", [{"top_p": 0.6}, {"top_p": 0.9, "temperature": 1.0}, {"top_k": 2}, {"top_p": 1}])
def test_filters_and_logprobs_are_those_of_python(server: Live, gemma: LoadedModel, given: dict[str, Any]) -> None:
    """Each token has the probability that the last pass over its canvas gave it."""
    reply = server.chat(messages=MESSAGES, **ASKED, **given, logprobs=True, top_logprobs=3)
    entries = reply.json()["choices"][0]["logprobs"]["content"]
    taken: dict[str, Any] = {name: value for name, value in given.items() if value != 1 or name == "temperature"}
    expected = anyorder.generate(gemma, MESSAGES, PARAMS, top_logprobs=3, **taken)
    assert len(entries) == len(expected.trace) == 20
    for entry, slot in zip(entries, expected.trace, strict=True):
        assert entry["logprob"] == pytest.approx(math.log(slot.confidence), abs=1e-4)
        found = [best["logprob"] for best in entry["top_logprobs"]]
        assert found == pytest.approx([math.log(best.probability) for best in slot.alternatives], abs=1e-4)
        assert found[0] == entry["logprob"]


def test_what_noise_cannot_have_is_refused_by_its_name(server: Live) -> None:
    reply = server.chat(messages=MESSAGES, max_tokens=20, diffusion={"threshold": 0.9})
    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (400, "diffusion.threshold")
    assert "`threshold` is not supported where a canvas of noise is cleaned (DiffusionGemma" in error["message"]


def test_seams_are_refused_before_the_answer(server: Live, gemma: LoadedModel) -> None:
    """Guards against a stream that breaks off behind its last token; the causal mode has none and says so."""
    wanted: dict[str, Any] = {"messages": MESSAGES, "max_tokens": 4, "stream_format": "events", "seams": True}
    reply = server.chat(**wanted)
    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (400, "seams")
    assert "DiffusionGemma 26B-A4B decides its slots anew in every pass" in error["message"]
    assert server.chat(**wanted, diffusion={"mode": "causal"}).text.endswith("data: [DONE]\n\n")
    run = anyorder.stream(gemma, MESSAGES, PARAMS)
    run.generations()
    with pytest.raises(ParameterError, match="no pass is final"):
        measure_seams(gemma, run.events, PARAMS)


CLEANING: dict[str, Any] = {
    "t_min": 0.2,
    "t_max": 1.5,
    "stability_threshold": 2,
    "confidence_threshold": 3.0,
    "entropy_bound": 1.0,
}


def test_how_a_canvas_is_cleaned_is_up_to_the_request(server: Live, gemma: LoadedModel) -> None:
    found = server.chat(messages=MESSAGES, **ASKED | {"diffusion": {"steps": 5, **CLEANING}}).json()
    expected = anyorder.generate(gemma, MESSAGES, PARAMS, **CLEANING)
    assert found["choices"][0]["message"]["content"] == expected.text
    assert found["usage"]["diffusion"]["passes"] == expected.stats.passes
    plain = server.chat(messages=MESSAGES, **ASKED).json()
    assert found["choices"][0]["message"]["content"] != plain["choices"][0]["message"]["content"]


def test_every_parameter_can_be_sent() -> None:
    """Guards against one that was added to Python and forgotten here; those left have names of OpenAI's."""
    own = {"max_new_tokens", "temperature", "top_p", "top_k", "top_logprobs", "seed", "logit_bias"}
    python_only = {"measure_drift"}  # twice the work, to learn of the cache
    assert {field.name for field in fields(DecodeParams)} == {*EXTENSIONS} | own | python_only
