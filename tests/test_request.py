"""What a family makes of the parameters: its defaults, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.engine.tiny import MASK, tiny

from anyorder import DecodeParams, Hole
from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.causal import CausalDecoder
from anyorder.decoders.full import FullDecoder
from anyorder.errors import ContextError, ModelError, ParameterError
from anyorder.policies.catalog import POLICIES
from anyorder.request.decoder import build_decoder
from anyorder.request.needs import stored_columns
from anyorder.resolve import resolve

LLADA = "LLaDA 8B Base/Instruct, LLaDA 1.5, iLLaDA"
SDAR = "SDAR 1.7B/4B/8B, TraDo"


def wanted(**fields: Any) -> DecodeParams:
    defaults: dict[str, Any] = {"max_new_tokens": 16}
    return DecodeParams(**defaults | fields)


def refusal(family: str, holes: int = 0, **fields: Any) -> ParameterError:
    with pytest.raises(ParameterError) as caught:
        resolve(wanted(**fields), tiny(family), holes=holes)
    return caught.value


@pytest.mark.parametrize(
    ("family", "fields", "expected"),
    [
        ("llada", {}, {"mode": "full", "policy": "low_confidence", "cache": "none", "block_length": None}),
        ("llada", {"cache": "dual"}, {"block_length": 32}),
        ("llada", {"growth": "block"}, {"block_length": 32}),
        ("llada", {"threshold": 0.9}, {"policy": "threshold"}),
        ("llada", {"factor": 1.0}, {"policy": "factor"}),
        ("llada", {"entropy_bound": 0.1}, {"policy": "entropy_bound"}),
        ("llada", {"steps": 8}, {"policy": "low_confidence"}),
        ("llada", {"alg_temp": 0.1}, {"policy": "entropy"}),
        ("dream", {}, {"mode": "full", "policy": "entropy", "cache": "none"}),
        ("dream", {"steps": 8, "alg_temp": 0.1}, {"policy": "entropy"}),
        ("sdar", {}, {"mode": "block", "policy": "low_confidence_dynamic", "cache": "block", "block_length": 4}),
        ("sdar", {"threshold": 0.5, "steps": 2}, {"policy": "low_confidence_dynamic", "sub_block_length": 4}),
        ("sdar", {"block_length": 6, "sub_block_length": 3}, {"block_length": 6, "sub_block_length": 3}),
        ("fast_dllm_v2", {}, {"mode": "block", "policy": "threshold", "cache": "block", "sub_block_length": 8}),
        ("fast_dllm_v2", {"block_length": 12}, {"sub_block_length": 12}),
        ("fast_dllm_v2", {"block_length": 16, "policy": "origin"}, {"sub_block_length": 16}),
        ("fast_dllm_v2", {"block_length": 16, "steps": 5}, {"sub_block_length": 16, "policy": "low_confidence"}),
        ("fast_dllm_v2", {"mode": "causal"}, {"mode": "causal", "cache": "block", "policy": None}),
        ("llama", {}, {"mode": "causal", "cache": "block", "policy": None, "block_length": None}),
        ("llama", {"cache": "none"}, {"mode": "causal", "cache": "none"}),
        ("llama", {"steps": 4}, {"mode": "block", "policy": "sequential", "block_length": 8}),
        ("llama", {"threshold": 0.9}, {"mode": "block", "policy": "threshold"}),
        ("llama", {"block_length": 4}, {"mode": "block", "block_length": 4}),
        ("llama", {"mode": "block"}, {"mode": "block", "policy": "sequential"}),
    ],
)
def test_a_family_fills_in_its_defaults(family: str, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    resolved = resolve(wanted(**fields), tiny(family))
    assert {name: getattr(resolved, name) for name in expected} == expected


def test_a_hole_makes_an_autoregressive_model_decode_in_any_order() -> None:
    assert resolve(DecodeParams(), tiny("llama"), holes=1).mode == "block"


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("llada", {"mode": "block"}, f"{LLADA} cannot decode in mode 'block'; use 'full'"),
    ("sdar", {"mode": "causal"}, f"{SDAR} cannot decode in mode 'causal'; use 'block'"),
    ("fast_dllm_v2", {"mode": "full"}, "Fast-dLLM v2 1.5B/7B cannot decode in mode 'full'; use 'block' or 'causal'"),
    ("llada", {"cache": "block"}, f"cache 'block' does not fit {LLADA} in mode 'full'; use none, prefix, dual"),
    ("sdar", {"cache": "sub_block"}, f"cache 'sub_block' does not fit {SDAR} in mode 'block'; use block, none"),
    (
        "llama",
        {"cache": "dual"},
        "cache 'dual' does not fit Llama, SmolLM2 (autoregressive) in mode 'causal'; use block, none",
    ),
    (
        "llada",
        {"threshold": 0.9, "factor": 1.0},
        "`threshold` and `factor` belong to different policies; name one with `policy`",
    ),
    (
        "llada",
        {"threshold": 0.9, "steps": 4},
        "policy 'threshold' does not read `steps`; drop it or use one of low_confidence, random, origin, maskgit_plus, "
        "topk_margin, entropy, confidence_threshold, sequential, low_confidence_static, low_confidence_dynamic, "
        "ddpm_cache, ddpm, renoise",
    ),
    ("llada", {"steps": 17}, "`steps` is 17, but only 16 slots are to be decided; use at most that"),
    (
        "llada",
        {"steps": 7, "block_length": 4},
        "`steps` is shared among 4 blocks of 4 slots, and 7 is no multiple of 4; use 4 or 8",
    ),
    (
        "llada",
        {"steps": 3, "block_length": 4},
        "`steps` is shared among 4 blocks of 4 slots, and 3 is no multiple of 4; use 4",
    ),
    ("sdar", {"steps": 5}, "`steps` counts passes per block here, got 5; a block has 4 slots, use at most that"),
    (
        "llama",
        {"mode": "causal", "steps": 3},
        "`steps` has no meaning in mode 'causal', which commits one token per pass; drop it",
    ),
    (
        "llama",
        {"mode": "causal", "block_length": 3},
        "`block_length` has no meaning in mode 'causal', which commits one token per pass; drop it",
    ),
    (
        "sdar",
        {"cfg_scale": 1.0},
        "`cfg_scale` needs mode 'full' and cache 'none', got mode 'block' and cache 'block'",
    ),
    (
        "llada",
        {"cfg_scale": 1.0, "cache": "dual"},
        "`cfg_scale` needs mode 'full' and cache 'none', got mode 'full' and cache 'dual'",
    ),
    ("sdar", {"growth": "block"}, "`growth` is a choice of mode 'full'; mode 'block' opens slots as it goes; drop it"),
    ("llada", {"sub_block_length": 4}, "`sub_block_length` belongs to mode 'block'; drop it"),
    (
        "fast_dllm_v2",
        {"sub_block_length": 3},
        "`sub_block_length` 3 does not divide `block_length` 8; use a divisor",
    ),
    (
        "fast_dllm_v2",
        {"cache": "sub_block"},
        "cache 'sub_block' needs a `sub_block_length` below the block length 8",
    ),
    (
        "fast_dllm_v2",
        {"policy": "origin", "sub_block_length": 4},
        "policy 'origin' spreads over a whole block, which sub-blocks cut; drop it or do without sub-blocks",
    ),
    (
        "fast_dllm_v2",
        {"steps": 4, "sub_block_length": 4},
        "`steps` spreads over a whole block, which sub-blocks cut; drop it or do without sub-blocks",
    ),
    (
        "fast_dllm_v2",
        {"steps": 4, "cache": "sub_block"},
        "`steps` spreads over a whole block, which sub-blocks cut; drop it or do without sub-blocks",
    ),
    ("sdar", {"block_length": 97}, "`block_length` 97 is longer than the model's context 96"),
    (
        "llada",
        {"measure_drift": True},
        "`measure_drift` compares a cache with none, and the cache is 'none'; name a cache",
    ),
    (
        "llama",
        {"confidence_eos_eot_inf": True},
        "`confidence_eos_eot_inf` has no meaning in mode 'causal'; drop it",
    ),
    (
        "dream",
        {"confidence_eos_eot_inf": True},
        "`confidence_eos_eot_inf` lowers a probability that policy 'entropy' does not rank by; drop it or use "
        "low_confidence",
    ),
]


@pytest.mark.parametrize(("family", "fields", "text"), REFUSED)
def test_what_a_family_cannot_do_is_refused(family: str, fields: dict[str, Any], text: str) -> None:
    error = refusal(family, **fields)
    assert str(error) == text
    assert error.param in fields or error.param in ("policy", "sub_block_length")


@pytest.mark.parametrize("policy", ["sequential", "random", "entropy_bound", "topk_margin"])
def test_delaying_stop_tokens_needs_a_policy_that_ranks_by_probability(policy: str) -> None:
    """Otherwise the parameter would be ignored."""
    assert f"policy '{policy}' does not rank by" in str(refusal("llada", policy=policy, confidence_eos_eot_inf=True))


@pytest.mark.parametrize("name", ["logits_eos_inf", "confidence_eos_eot_inf"])
def test_a_rule_about_stop_tokens_needs_some(name: str) -> None:
    model = replace(tiny("llada"), stop_ids=())
    with pytest.raises(ParameterError, match=f"`{name}` is about stop tokens, and tiny llada names none; drop it"):
        resolve(wanted(**{name: True}), model)


def test_holes_need_a_decoder_that_can_fill_them() -> None:
    assert str(refusal("llama", 1, mode="causal")) == (
        "mode 'causal' reads left to right and cannot fill holes; use mode 'block'"
    )
    for cache in ("prefix", "dual"):
        assert str(refusal("llada", 1, cache=cache)) == (
            f"cache '{cache}' keeps the prompt as it first was, holes in it included; use cache 'none'"
        )


def test_holes_count_among_the_slots_of_a_schedule() -> None:
    assert resolve(DecodeParams(max_new_tokens=4, steps=6), tiny("llada"), holes=2).steps == 6
    assert str(refusal("llada", 2, max_new_tokens=4, steps=7)) == (
        "`steps` is 7, but only 6 slots are to be decided; use at most that"
    )


# ---------------------------------------------------------------- the decoder


def build(family: str, prompt: list[int | Hole], **fields: Any) -> Any:
    model = tiny(family)
    holes = sum(part.length for part in prompt if isinstance(part, Hole))
    params = resolve(wanted(**{"max_new_tokens": 8} | fields), model, holes=holes)
    return build_decoder(params, model, prompt)


def test_each_mode_has_its_decoder() -> None:
    assert isinstance(build("llada", [5]), FullDecoder)
    assert isinstance(build("sdar", [5]), BlockDecoder)
    assert isinstance(build("llama", [5]), CausalDecoder)


@pytest.mark.parametrize(
    ("family", "threshold", "strict"),
    [("llada", 0.9, False), ("dream", 0.9, False), ("sdar", 0.85, True), ("fast_dllm_v2", 0.9, True)],
)
def test_each_family_has_its_published_threshold(family: str, threshold: float, strict: bool) -> None:
    knobs = build(family, [5]).chooser.knobs
    assert (knobs.threshold, knobs.strict) == (threshold, strict)
    policy = build(family, [5]).chooser.policy.name
    given = build(family, [5], threshold=0.0, policy=policy if "threshold" in POLICIES[policy].reads else "threshold")
    assert given.chooser.knobs.threshold == 0.0


def test_sampling_delays_the_end_of_the_turn_only() -> None:
    """As published: at temperature 0 the end of text is delayed as well."""
    options: dict[str, Any] = {"confidence_eos_eot_inf": True}
    assert build("llada", [5], **options).chooser.sampling.late_ids == (2, 3)
    assert build("llada", [5], temperature=1.0, **options).chooser.sampling.late_ids == (3,)
    assert build("llada", [5]).chooser.sampling.late_ids == ()


@pytest.mark.parametrize("family", ["dream", "sdar"])
def test_the_time_grid_ends_where_it_is_told(family: str) -> None:
    options: dict[str, Any] = {"policy": "origin", "steps": 4}
    assert build(family, [5], **options).schedule.eps == 1e-3
    assert build(family, [5], eps=0.5, **options).schedule.eps == 0.5


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"banned_ids": (24,)}, "`banned_ids` holds token id 24; ids go from 0 to 23"),
        ({"stop_ids": (99,)}, "`stop_ids` holds token id 99; ids go from 0 to 23"),
        ({"logit_bias": {24: 1.0}}, "`logit_bias` holds token id 24; ids go from 0 to 23"),
        ({"forced": {0: 24}}, "`forced` holds token id 24; ids go from 0 to 23"),
        ({"forced": {0: MASK}}, f"`forced` cannot hold the mask id {MASK}; give the id of a real token"),
        ({"logit_bias": {MASK: 1.0}}, f"`logit_bias` names the mask id {MASK}, which is never produced; drop it"),
        ({"banned_ids": tuple(range(24))}, "`banned_ids` leaves no token to produce; ban fewer"),
        (
            {"banned_ids": tuple(i for i in range(24) if i not in (2, MASK)), "logits_eos_inf": True},
            "`banned_ids` leaves no token to produce; ban fewer",
        ),
        (
            {"max_new_tokens": 0},
            "`max_new_tokens` is 0 and the prompt has no holes: there is nothing to decode; raise it or add a Hole",
        ),
    ],
)
def test_token_ids_must_exist_and_leave_something_to_do(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        build("llada", [5, 6], **fields)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "prompt", [[5] * 90, [Hole(90)], [5, Hole(88), 6], [Hole(10**12)]], ids=["ids", "hole", "both", "endless"]
)
def test_what_does_not_fit_the_context_is_refused_before_anything_is_made(prompt: list[int | Hole]) -> None:
    length = sum(part.length if isinstance(part, Hole) else 1 for part in prompt)
    with pytest.raises(ContextError) as caught:
        build("llada", prompt)
    assert str(caught.value) == (
        f"the prompt has {length} tokens and max_new_tokens is 8, together {length + 8}; "
        f"the model's context is 96: shorten them by {length + 8 - 96}"
    )


def test_the_last_slot_of_the_context_can_be_used() -> None:
    assert build("llada", [5] * 88).end == 96


def test_a_model_without_a_mask_token_decodes_causally_only() -> None:
    model = tiny("llama", mask_token_id=None)
    params = resolve(DecodeParams(mode="block"), model)
    with pytest.raises(ModelError, match="tiny llama has no mask token, which mode 'block' needs; pass mask_token_id"):
        build_decoder(params, model, [5])
    build_decoder(resolve(DecodeParams(max_new_tokens=4), model), model, [5])


@pytest.mark.parametrize(
    ("family", "fields", "columns"),
    [
        ("llada", {}, 0),
        ("llada", {"cache": "dual"}, 11),
        ("sdar", {}, 12),
        ("llama", {}, 11),
        ("llama", {"cache": "none"}, 0),
    ],
)
def test_storage_has_room_for_whole_blocks(family: str, fields: dict[str, Any], columns: int) -> None:
    params = resolve(wanted(**{"max_new_tokens": 8} | fields), tiny(family))
    assert stored_columns(params, 11) == columns
