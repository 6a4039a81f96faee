"""DecodeParams: what each field may hold, and what every refusal says."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder import DecodeParams
from anyorder.errors import ParameterError
from anyorder.policies.catalog import POLICIES

NAN, INF = float("nan"), float("inf")


def refusal(**fields: Any) -> ParameterError:
    with pytest.raises(ParameterError) as caught:
        DecodeParams(**fields)
    return caught.value


WRONG: list[tuple[str, list[Any], str]] = [
    ("mode", ["fulll", None, 3], "`mode` must be one of auto, causal, full, block, got {!r}"),
    (
        "cache",
        ["prefx", None],
        "`cache` must be one of auto, none, block, prefix, dual, sub_block, got {!r}",
    ),
    ("growth", ["auto", None], "`growth` must be one of fixed, block, got {!r}"),
    ("draft", ["model", None], "`draft` must be one of auto, none, lookup, ngram, denoiser, block, got {!r}"),
    ("draft_length", [0, -1, 2.0], "`draft_length` must be a whole number of at least 1, got {!r}"),
    ("top_logprobs", [-1, 21, 1.0, True, None], "`top_logprobs` must be a whole number from 0 to 20, got {!r}"),
    ("steps", [0, -1, 1.5, "3", True], "`steps` must be a whole number of at least 1, got {!r}"),
    (
        "threshold",
        [-0.1, 1.1, NAN, INF, "0.9", True],
        "`threshold` must be in [0, 1]; 0.9 is the published default, got {!r}",
    ),
    ("factor", [0, -1, NAN, INF, "1"], "`factor` must be above 0; 1 is the published default, got {!r}"),
    (
        "entropy_bound",
        [-0.1, NAN, INF],
        "`entropy_bound` must be at least 0 (nats); 0.1 is the published default, got {!r}",
    ),
    (
        "entropy_threshold",
        [-0.1, NAN, INF, True],
        "`entropy_threshold` must be at least 0 (nats); 0.4 is the published default, got {!r}",
    ),
    (
        "position_penalty",
        [-0.1, NAN, INF, "0"],
        "`position_penalty` must be at least 0 (nats per slot); 0.02 is the published default, got {!r}",
    ),
    ("window", ["slide", None], "`window` must be one of auto, block, sliding, got {!r}"),
    ("alg_temp", [-1, 1e-9, 1e9, NAN], "`alg_temp` must be 0, or from 0.001 to 1000, got {!r}"),
    ("eps", [0, 1, -1, NAN], "`eps` must be in (0, 1); 0.001 is the published default, got {!r}"),
    ("noise", ["linear", 1], "`noise` must be one of loglinear, cosine, square, square_root, log, got {!r}"),
    ("block_length", [0, 2.0, "8"], "`block_length` must be a whole number of at least 1, got {!r}"),
    ("first_block_length", [0, 2.0], "`first_block_length` must be a whole number of at least 1, got {!r}"),
    ("sub_block_length", [0, 2.0], "`sub_block_length` must be a whole number of at least 1, got {!r}"),
    (
        "edit_threshold",
        [-0.1, 1.1, NAN, "0.5", True],
        "`edit_threshold` must be in [0, 1]; 0.5 is published for LLaDA2.1, got {!r}",
    ),
    (
        "edit_passes",
        [-1, 1.0, "2"],
        "`edit_passes` must be a whole number of at least 0; 16 is the published default, got {!r}",
    ),
    ("edit_blocks", [-1, 1.0, None], "`edit_blocks` must be a whole number of at least 0; 1 is published, got {!r}"),
    ("t_min", [0, 1001, NAN], "`t_min` must be from 0.001 to 1000; 0.4 is the published default, got {!r}"),
    ("t_max", [0, 1001, "1"], "`t_max` must be from 0.001 to 1000; 0.8 is the published default, got {!r}"),
    ("stability_threshold", [-1, 1.5], "`stability_threshold` must be a whole number of at least 0, got {!r}"),
    (
        "confidence_threshold",
        [-0.1, NAN],
        "`confidence_threshold` must be at least 0 (nats); 0.005 is the published default, got {!r}",
    ),
    ("max_new_tokens", [-1, 1.0, None, "9"], "`max_new_tokens` must be a whole number of at least 0, got {!r}"),
    ("temperature", [-1, 1e-4, 1e4, NAN, None, "1"], "`temperature` must be 0, or from 0.001 to 1000, got {!r}"),
    ("top_p", [0, 1.1, -0.5, NAN], "`top_p` must be in (0, 1], got {!r}"),
    ("top_k", [0, -1, 2.5], "`top_k` must be a whole number of at least 1; leave it out to keep all tokens, got {!r}"),
    ("seed", [-1, 2**63, 0.5, None], "`seed` must be a whole number from 0 to 2^63 - 1, got {!r}"),
    ("cfg_scale", [-1, 101, INF, None], "`cfg_scale` must be in [0, 100], got {!r}"),
    ("measure_drift", ["no", 1, None], "`measure_drift` must be True or False, got {!r}"),
    ("logits_eos_inf", ["no", 0], "`logits_eos_inf` must be True or False, got {!r}"),
    ("confidence_eos_eot_inf", ["yes", 2], "`confidence_eos_eot_inf` must be True or False, got {!r}"),
    ("stop_ids", [2, "ab", {2}], "`stop_ids` must be a tuple of token ids, got {!r}"),
    ("banned_ids", [2, None, {2: 1}], "`banned_ids` must be a tuple of token ids, got {!r}"),
    ("logit_bias", [None, [3], 3], "`logit_bias` must map token ids to numbers, got {!r}"),
    ("forced", [None, [3], 3], "`forced` must map answer offsets to token ids, got {!r}"),
]


@pytest.mark.parametrize(
    ("name", "value", "text"), [(name, value, text) for name, values, text in WRONG for value in values]
)
def test_a_value_outside_of_its_range_is_named_with_the_range(name: str, value: Any, text: str) -> None:
    error = refusal(**{name: value})
    assert str(error) == text.format(value)
    assert error.param == name


def test_every_field_but_policy_is_tested_for_its_range() -> None:
    fields = {field.name for field in dataclasses.fields(DecodeParams)}
    assert fields == {name for name, _, _ in WRONG} | {"policy"}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"stop_ids": (2, -1)}, "`stop_ids` must hold token ids (integers >= 0), got -1"),
        ({"banned_ids": (True,)}, "`banned_ids` must hold token ids (integers >= 0), got True"),
        ({"banned_ids": ("5",)}, "`banned_ids` must hold token ids (integers >= 0), got '5'"),
        ({"logit_bias": {"5": 1}}, "`logit_bias` must hold token ids (integers >= 0), got '5'"),
        ({"logit_bias": {5: 101}}, "`logit_bias` values must be in [-100, 100], got 101; use banned_ids to ban"),
        ({"logit_bias": {5: "1"}}, "`logit_bias` values must be in [-100, 100], got '1'; use banned_ids to ban"),
        ({"logit_bias": {5: NAN}}, "`logit_bias` values must be in [-100, 100], got nan; use banned_ids to ban"),
        ({"forced": {-1: 5}}, "`forced` must name answer offsets (integers >= 0), got -1"),
        ({"forced": {"0": 5}}, "`forced` must name answer offsets (integers >= 0), got '0'"),
        ({"forced": {0: -5}}, "`forced` must hold token ids (integers >= 0), got -5"),
        ({"forced": {0: None}}, "`forced` must hold token ids (integers >= 0), got None"),
    ],
)
def test_what_a_collection_holds_is_checked(fields: dict[str, Any], text: str) -> None:
    assert str(refusal(**fields)) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"forced": {8: 5}, "max_new_tokens": 8},
            "`forced` must name answer offsets below max_new_tokens (8), got 8; raise max_new_tokens or drop it",
        ),
        ({"forced": {0: 5}, "banned_ids": (5,)}, "token id 5 is both forced and banned; drop one"),
        ({"logit_bias": {5: 1.0}, "banned_ids": (5,)}, "token id 5 has a logit_bias and is banned; drop one"),
        (
            {"block_length": 8, "sub_block_length": 3},
            "`sub_block_length` 3 does not divide `block_length` 8; use a divisor",
        ),
        (
            {"edit_passes": 3},
            "`edit_passes` is about edits, which `edit_threshold` switches on; give it, or drop this",
        ),
        (
            {"edit_blocks": 1},
            "`edit_blocks` is about edits, which `edit_threshold` switches on; give it, or drop this",
        ),
        (
            {"edit_threshold": 0.5, "edit_blocks": 1, "edit_passes": 0},
            "`edit_passes` 0 leaves no pass in which `edit_blocks` could edit; raise it or drop one",
        ),
        (
            {"policy": "entropy_bound", "threshold": 0.5},
            "policy 'entropy_bound' does not read `threshold`; drop it or use one of threshold, confidence_threshold, "
            "low_confidence_dynamic",
        ),
    ],
)
def test_fields_that_contradict_each_other_are_refused(fields: dict[str, Any], text: str) -> None:
    assert str(refusal(**fields)) == text


def test_several_faults_come_together() -> None:
    error = refusal(threshold=2, top_p=0, steps=0)
    assert str(error).count(";") >= 2
    assert all(name in str(error) for name in ("`threshold`", "`top_p`", "`steps`"))
    assert error.param == "steps"  # the first in the order of the fields


def test_relations_are_checked_when_the_fields_are_fine() -> None:
    """A wrong `max_new_tokens` must not end in a comparison of different types."""
    error = refusal(max_new_tokens="9", forced={0: 5})
    assert str(error) == "`max_new_tokens` must be a whole number of at least 0, got '9'"


KNOWN = ", ".join(sorted(POLICIES))


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ("treshold", f"unknown policy 'treshold'; did you mean 'threshold'? Known: {KNOWN}"),
        ("zzz", f"unknown policy 'zzz'; Known: {KNOWN}"),
        (3, f"unknown policy 3; Known: {KNOWN}"),
        (["zzz"], f"unknown policy ['zzz']; Known: {KNOWN}"),
    ],
)
def test_an_unknown_policy_is_answered_with_the_nearest(policy: Any, text: str) -> None:
    assert str(refusal(policy=policy)) == text


@pytest.mark.parametrize(
    ("name", "near"),
    [("stpes", "steps"), ("treshold", "threshold"), ("max_tokens", "max_new_tokens"), ("topp", "top_p")],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, near: str) -> None:
    changes: dict[str, Any] = {name: 1}
    with pytest.raises(
        ParameterError, match=f"unknown parameter '{name}'; did you mean '{near}'\\? Known: .*"
    ) as caught:
        DecodeParams.of(None, **changes)
    assert caught.value.param == name


@pytest.mark.parametrize("params", [{"steps": 3}, "fast", 5])
def test_params_of_another_kind_are_refused(params: Any) -> None:
    kind: str = type(params).__name__
    with pytest.raises(
        ParameterError, match=f"`params` must be a DecodeParams, got {kind}; give its fields as keyword"
    ):
        DecodeParams.of(params)


def test_a_copy_is_checked_and_the_original_stays() -> None:
    params = DecodeParams(steps=4)
    assert params.replace(steps=5).steps == 5
    assert DecodeParams.of(params, seed=1) == DecodeParams(steps=4, seed=1)
    assert params == DecodeParams(steps=4)
    with pytest.raises(ParameterError):
        params.replace(steps=0)


def test_the_record_is_frozen_and_keyword_only() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DecodeParams().steps = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        DecodeParams("full")  # type: ignore[misc]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_takes_what_it_reads_and_refuses_every_other_knob(policy: str) -> None:
    values = {"steps": 2, "threshold": 0.5, "factor": 1.0, "entropy_bound": 0.5, "alg_temp": 0.5, "eps": 0.5,
              "entropy_threshold": 0.5, "position_penalty": 0.5}  # fmt: skip
    for name, value in values.items():
        if name in POLICIES[policy].reads:
            assert getattr(DecodeParams(policy=policy, **{name: value}), name) == value  # type: ignore[arg-type]
        else:
            assert f"policy '{policy}' does not read `{name}`" in str(refusal(policy=policy, **{name: value}))


anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.integers())


@given(
    fields=st.dictionaries(st.sampled_from([f.name for f in dataclasses.fields(DecodeParams)]), anything, max_size=4)
)
def test_nothing_but_a_refusal_comes_out(fields: dict[str, Any]) -> None:
    """Whatever is passed: a record, or one line without a traceback."""
    fault = None
    try:
        DecodeParams(**fields)
    except ParameterError as error:
        fault = error
    assert fault is None or fault.param in fields
    assert "\n" not in str(fault)
