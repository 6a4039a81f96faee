"""What must hold of every decoder with every policy, cache and prompt: see `tests.engine.audit` for the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from tests.engine import requests
from tests.engine.audit import audited
from tests.engine.tiny import ANY_ORDER, MASK, VOCABULARY, tiny
from torch import Tensor

import anyorder
from anyorder import AnyorderError, Hole
from anyorder.errors import ModelError
from anyorder.models.families import FAMILIES
from anyorder.models.loaded import LoadedModel
from anyorder.policies.catalog import POLICIES

Request = tuple[str, list[int | Hole], dict[str, Any]]


@settings(max_examples=250)
@given(request=requests.fitting())
def test_every_answer_keeps_the_rules(request: Request) -> None:
    """It ends; no slot is decided twice, given ones never; no mask, no banned id; nothing behind the stop token."""
    family, prompt, params = request
    model = tiny(family)
    try:
        stream = anyorder.stream(model, prompt, **params)
    except AnyorderError:
        return
    audited(stream, model, prompt)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "renoise"])  # which cleans noise, not masks
@pytest.mark.parametrize("family", ANY_ORDER)
def test_every_policy_runs_on_every_family(family: str, policy: str, temperature: float) -> None:
    model = tiny(family)
    mode = next(mode for mode in FAMILIES[family].modes if mode != "causal")
    prompt: list[int | Hole] = [5, 6, Hole(2), 7]
    stream = anyorder.stream(
        model, prompt, mode=mode, policy=policy, max_new_tokens=9, temperature=temperature, stop_ids=(2,)
    )
    audited(stream, model, prompt)


class Swayed(torch.nn.Module):
    """A network whose logit of the mask token is moved: it believes in nothing but that, or is broken (nan)."""

    def __init__(self, model: LoadedModel, sway: float) -> None:
        super().__init__()
        self.inner = model.network
        self.config, self.dtype, self.device = model.network.config, model.network.dtype, model.network.device
        self.sway = sway

    def forward(self, *args: Any) -> Tensor:
        return self.inner(*args)

    def head(self, hidden: Tensor) -> Tensor:
        logits = self.inner.head(hidden)
        logits[:, MASK if self.sway > 0 else 5] += self.sway
        return logits


def swayed(family: str, sway: float) -> LoadedModel:
    model = tiny(family)
    return replace(model, network=cast(Any, Swayed(model, sway)))


@pytest.mark.parametrize("sway", [1e4, float("inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("family", ANY_ORDER)
def test_a_model_that_wants_masks_gets_none(family: str, temperature: float, sway: float) -> None:
    """The mask logit is removed before any softmax: ids and confidences are those of the other tokens."""
    mode = next(mode for mode in FAMILIES[family].modes if mode != "causal")
    prompt: list[int | Hole] = [5, Hole(1), 6]
    params: dict[str, Any] = {"mode": mode, "max_new_tokens": 7, "temperature": temperature, "stop_ids": ()}
    model = swayed(family, sway)
    answer = audited(anyorder.stream(model, prompt, **params), model, prompt)
    plain = anyorder.generate(tiny(family), prompt, **params)
    assert MASK not in (*answer.prompt_ids, *answer.ids)
    assert (answer.ids, answer.prompt_ids) == (plain.ids, plain.prompt_ids)
    assert [s.confidence for s in answer.trace] == pytest.approx([s.confidence for s in plain.trace])


@pytest.mark.parametrize("policy", ["threshold", "entropy_bound", "factor", "random", "origin"])
@pytest.mark.parametrize("family", ["llada", "sdar", "fast_dllm_v2"])
def test_a_model_that_computes_nan_is_named_and_does_not_hang(family: str, policy: str) -> None:
    """Comparisons with nan are false: the entropy bound would never commit a slot."""
    with pytest.raises(
        ModelError, match="the model's logits are nan: its weights are damaged, or its numbers overflow"
    ):
        anyorder.generate(swayed(family, float("nan")), [5, 6], max_new_tokens=6, policy=policy)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", ANY_ORDER)
def test_every_dtype_keeps_the_rules(family: str, dtype: torch.dtype) -> None:
    """Ties are frequent in bfloat16."""
    model, prompt = tiny(family, dtype=dtype), [5, 6, 7]
    for temperature in (0.0, 1.0):
        audited(anyorder.stream(model, prompt, max_new_tokens=12, temperature=temperature), model, prompt)


@pytest.mark.parametrize("policy", ["low_confidence", "random", "sequential", "entropy"])
@pytest.mark.parametrize("prompt", [[5, Hole(2)], [Hole(3), 5, 6], [8, Hole(4), 9]])
def test_holes_compete_with_the_slots_of_a_block(policy: str, prompt: list[int | Hole]) -> None:
    """An even schedule then leaves a block with open slots; it is finished when they are filled, not before."""
    model = tiny("llada")
    for seed in range(3):
        stream = anyorder.stream(
            model, prompt, policy=policy, block_length=2, max_new_tokens=6, temperature=1.0, seed=seed, stop_ids=()
        )
        assert audited(stream, model, prompt).stats.blocks == 3


@pytest.mark.parametrize("family", ANY_ORDER)
def test_a_biased_token_is_preferred_and_a_banned_one_is_not(family: str) -> None:
    mode = next(mode for mode in FAMILIES[family].modes if mode != "causal")
    params: dict[str, Any] = {"mode": mode, "max_new_tokens": 6, "stop_ids": ()}
    biased = anyorder.generate(tiny(family), [5, 6], logit_bias={9: 100.0}, **params)
    assert set(biased.ids) == {9}
    banned = tuple(token for token in range(VOCABULARY) if token not in (4, MASK))
    assert set(anyorder.generate(tiny(family), [5, 6], banned_ids=banned, **params).ids) == {4}


IN_BLOCKS_OF_TWO: dict[str, tuple[str, dict[str, Any]]] = {
    "causal": ("llama", {}),
    "any order": ("llama", {"block_length": 2}),
    "whole": ("llada", {"block_length": 2}),
    "growing": ("llada", {"block_length": 2, "growth": "block"}),
    "cached": ("dream", {"block_length": 2, "cache": "dual"}),
    "block": ("sdar", {"block_length": 2}),
    "shifted block": ("fast_dllm_v2", {"block_length": 2}),
}


@pytest.mark.parametrize("forced", [{}, {0: 9}, {5: 9}, {2: 9, 3: 8}, {4: 9, 5: 8}, dict.fromkeys(range(6), 9)])
@pytest.mark.parametrize("name", IN_BLOCKS_OF_TWO)
def test_forced_tokens_stand_from_the_start(name: str, forced: dict[int, int]) -> None:
    """Guards the decoders against blocks without anything to decide, first, last or all of them."""
    family, params = IN_BLOCKS_OF_TWO[name]
    model = tiny(family)
    answer = audited(
        anyorder.stream(model, [5, 6, 7], max_new_tokens=6, forced=forced, stop_ids=(), **params), model, [5, 6, 7]
    )
    assert {offset: answer.ids[offset] for offset in forced} == forced
    assert answer.stats.tokens == 6 - len(forced)
    assert (answer.stats.passes == 0) == (len(forced) == 6)


@pytest.mark.parametrize("cache", ["prefix", "dual"])
def test_a_cached_shifted_block_with_an_even_schedule_comes_to_its_end(cache: str) -> None:
    """The first slot of such a block is decided alone, so the schedule's passes leave one slot behind."""
    model = tiny("dream")
    stream = anyorder.stream(
        model, [5, 6, 7], policy="low_confidence", steps=4, block_length=4, max_new_tokens=8, cache=cache, stop_ids=()
    )
    assert len(audited(stream, model, [5, 6, 7]).ids) == 8


@pytest.mark.parametrize("length", range(1, 10))
@pytest.mark.parametrize("family", ["sdar", "fast_dllm_v2"])
def test_prompts_of_any_length_get_answers_of_exactly_the_wanted_length(family: str, length: int) -> None:
    model, prompt = tiny(family), [5 + i % 9 for i in range(length)]
    for slots in (1, 4, 7):
        answer = audited(anyorder.stream(model, prompt, max_new_tokens=slots, stop_ids=()), model, prompt)
        assert len(answer.ids) == slots


def test_without_steps_dreams_policies_commit_one_slot_per_pass() -> None:
    for policy in ("maskgit_plus", "topk_margin", "entropy"):
        answer = anyorder.generate(tiny("dream"), [5, 6], policy=policy, max_new_tokens=8, stop_ids=())
        assert sorted(slot.commit_pass for slot in answer.trace) == list(range(8))


STEPS: list[tuple[str, dict[str, Any], int]] = [
    *[("llada", {"steps": steps, "block_length": 4}, steps) for steps in (3, 6, 9, 12)],
    *[("llada", {"steps": steps}, steps) for steps in (1, 5, 7, 12)],
    *[("llada", {"steps": steps, "policy": "random", "temperature": 1.0}, steps) for steps in (1, 5, 12)],
    *[("dream", {"steps": steps}, steps) for steps in (1, 5, 7, 12)],
    *[("dream", {"steps": steps, "policy": "maskgit_plus", "alg_temp": 0.5}, steps) for steps in (4, 6)],
    *[("sdar", {"steps": steps, "threshold": 1.0}, 3 * steps) for steps in (1, 2, 3, 4)],
    *[("sdar", {"steps": steps, "policy": "sequential", "block_length": 6}, 2 * steps) for steps in (1, 4, 6)],
    *[
        ("fast_dllm_v2", {"steps": steps, "policy": "low_confidence", "block_length": 12}, 1 + steps)
        for steps in (4, 6)
    ],
]


@pytest.mark.parametrize(("family", "params", "passes"), STEPS)
def test_steps_are_the_passes_of_an_answer_or_of_a_block(family: str, params: dict[str, Any], passes: int) -> None:
    """Per answer for LLaDA and Dream, per block for block models, whose shifted ones also write the prompt."""
    prompt: list[int | Hole] = [5 + i for i in range(12)]
    model = tiny(family)
    answer = audited(anyorder.stream(model, prompt, max_new_tokens=12, stop_ids=(), **params), model, prompt)
    assert answer.stats.passes == passes
