"""A recipe's objective is the one that it names, with its numbers, and all randomness is the step's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from anyorder.training import noise, objectives
from anyorder.training.batch import Batch
from anyorder.training.noise import StepDraws
from anyorder.training.parts import layout_of
from anyorder.training.passes import TrainingPass
from anyorder.training.recipe.build import Facts, objective
from anyorder.training.recipe.objectives import ObjectiveSpec

MASK, SIZE, STEPS = 19, 18, 10
SPEC: TypeAdapter[Any] = TypeAdapter(ObjectiveSpec)
BATCH = Batch(
    torch.arange(48).view(2, 24) % SIZE,
    torch.tensor([[0] * 15 + [1] * 9, [0] * 20 + [-1] * 4]),
    torch.tensor([[False] * 3 + [True] * 21, [True] * 20 + [False] * 4]),
)


def passed(step: int = 3, **spec: Any) -> TrainingPass:
    facts = Facts(mask_token_id=MASK, vocab_size=SIZE, steps=STEPS)
    return objective(SPEC.validate_python(spec), facts)(BATCH, StepDraws(0, step))


def drawn(purpose: Any, step: int = 3) -> torch.Tensor:
    return StepDraws(0, step).uniform(purpose, 2, 24)


def ratio(groups: int, low: float = 1e-3, high: float = 1.0, *, stratified: bool = True) -> torch.Tensor:
    draws = StepDraws(0, 3)
    within = draws.uniform("within", groups)
    spread = noise.stratified(draws.uniform("order", groups), within) if stratified else within
    return noise.ratios(spread, low, high)


def same(one: TrainingPass, other: TrainingPass) -> bool:
    a, b = layout_of(one), layout_of(other)
    layouts = torch.equal(a.documents, b.documents) and torch.equal(a.blocks, b.blocks)
    names = ("ids", "positions", "rows", "targets", "weights")
    return (
        layouts
        and (a.sight, a.streams, one.context) == (b.sight, b.streams, other.context)
        and all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)
    )


DOCUMENTS = BATCH.num_documents


def test_llada() -> None:
    expected = objectives.masked_diffusion(BATCH, ratio(DOCUMENTS, 0.2, 0.7), drawn("mask"), mask_token_id=MASK)
    assert same(passed(kind="llada", ratios=(0.2, 0.7)), expected)
    plain = ratio(DOCUMENTS, stratified=False)
    assert same(
        passed(kind="llada", stratified=False),
        objectives.masked_diffusion(BATCH, plain, drawn("mask"), mask_token_id=MASK),
    )


def test_a_share_is_masked_throughout() -> None:
    p = passed(kind="llada", ratios=(0.1, 0.1), full_share=1.0)
    assert len(p.rows) == int(BATCH.trainable.sum())


def test_bd3lm() -> None:
    expected = objectives.block_diffusion(
        BATCH,
        ratio(BATCH.num_blocks(4), 0.3, 0.8),
        drawn("mask"),
        mask_token_id=MASK,
        block_length=4,
        context="causal",
        causal_weight=0.5,
    )
    spec: dict[str, Any] = {
        "kind": "bd3lm",
        "block_length": 4,
        "ratios": (0.3, 0.8),
        "context": "causal",
        "causal_weight": 0.5,
    }
    assert same(passed(**spec), expected)


def test_sdar() -> None:
    expected = objectives.sdar(BATCH, ratio(DOCUMENTS), drawn("mask"), mask_token_id=MASK, block_length=5)
    assert same(passed(kind="sdar", block_length=5), expected)


@pytest.mark.parametrize(("context", "frozen"), [("block", False), ("causal", False), ("frozen", True)])
def test_fast_dllm_v2(context: str, frozen: bool) -> None:
    expected = objectives.complementary(
        BATCH,
        ratio(BATCH.num_blocks(6)),
        drawn("mask"),
        mask_token_id=MASK,
        block_length=6,
        context="block" if context == "block" else "causal",
        frozen_context=frozen,
    )
    assert same(passed(kind="fast-dllm-v2", block_length=6, context=context), expected)
    assert (passed(kind="fast-dllm-v2", block_length=6, context=context).context > 0) is frozen


def test_diffusiongemma() -> None:
    expected = objectives.uniform_noise(
        BATCH,
        ratio(DOCUMENTS),
        drawn("mask"),
        drawn("token"),
        vocab_size=SIZE,
        block_length=4,
        context="causal",
        causal_weight=1.0,
    )
    spec: dict[str, Any] = {"kind": "diffusiongemma", "block_length": 4, "context": "causal", "causal_weight": 1.0}
    assert same(passed(**spec), expected)
    told = [passed(step, **spec).conditioned for step in range(40)]
    assert 8 < sum(told) < 32
    assert not any(passed(step, **spec, self_conditioning=0.0).conditioned for step in range(9))


def test_drafts_begin_anywhere() -> None:
    offsets = {
        tuple(layout_of(passed(step, kind="draft", block_length=3)).blocks[0, :6].tolist()) for step in range(30)
    }
    assert offsets == {(0, 0, 0, 1, 1, 1), (0, 0, 1, 1, 1, 2), (0, 1, 1, 1, 2, 2)}


def test_autoregressive_needs_no_mask() -> None:
    facts = Facts(mask_token_id=None, vocab_size=SIZE, steps=STEPS)
    p = objective(SPEC.validate_python({"kind": "autoregressive"}), facts)(BATCH, StepDraws(0, 0))
    assert same(p, objectives.autoregressive(BATCH))


def test_a_curriculum_changes_the_blocks_over_the_run() -> None:
    curriculum = {"warmup": (2, 4), "warmup_share": 0.4, "stable": 12, "decay": (6,), "decay_share": 0.2}

    def longest(step: int) -> int:
        blocks = layout_of(passed(step, kind="sdar", block_length=6, curriculum=curriculum)).blocks
        return int(blocks[1, :20].bincount().max())

    assert [longest(step) for step in range(STEPS)] == [2, 2, 4, 4, 12, 12, 12, 12, 6, 6]


def test_a_mixture_takes_turns_by_its_shares() -> None:
    parts = ({"kind": "llada"}, {"kind": "autoregressive"})
    sights = [layout_of(passed(step, kind="mixture", shares=(1, 3), parts=parts)).sight for step in range(100)]
    assert 23 <= sights.count("bidirectional") <= 27
