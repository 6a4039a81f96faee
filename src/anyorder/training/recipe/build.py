"""From the objective of a recipe to the function that a trainer asks: all randomness comes from the step's draws."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from anyorder.training import noise, objectives
from anyorder.training.batch import Batch
from anyorder.training.interfaces import Objective
from anyorder.training.mixture import mixture
from anyorder.training.noise import StepDraws
from anyorder.training.passes import TrainingPass
from anyorder.training.recipe.objectives import (
    Autoregressive,
    Bd3lm,
    DiffusionGemma,
    Draft,
    FastDllmV2,
    Llada,
    Mixture,
    ObjectiveSpec,
    Sdar,
    Simple,
)
from anyorder.training.recipe.traits import Blocks, Masked, Noisy


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What an objective must know of the run."""

    mask_token_id: int | None
    """None: the objective has no masks."""
    vocab_size: int
    """Tokens that uniform noise draws from."""
    steps: int
    """Of the whole run, for a curriculum."""


def objective(spec: ObjectiveSpec, facts: Facts) -> Objective:
    """The objective of a recipe."""
    if isinstance(spec, Mixture):
        return mixture([(share, objective(part, facts)) for share, part in zip(spec.shares, spec.parts, strict=True)])
    lengths = spec.lengths(facts.steps) if isinstance(spec, Blocks) else None
    return lambda batch, draws: _passed(spec, facts, batch, draws, lengths.block_length(draws.step) if lengths else 0)


def _passed(spec: Simple, facts: Facts, batch: Batch, draws: StepDraws, length: int) -> TrainingPass:
    """`length`: of a block in this step, where the objective has blocks."""
    mask = -1 if facts.mask_token_id is None else facts.mask_token_id
    match spec:
        case Autoregressive():
            return objectives.autoregressive(batch)
        case Draft():
            n = spec.block_length
            offset = int(float(draws.uniform("offset", 1)) * n)
            return objectives.drafting(
                batch, mask_token_id=mask, block_length=n, offset=offset, depth_decay=spec.depth_decay
            )
        case Llada():
            ratio = _ratios(spec, draws, batch.num_documents)
            return objectives.masked_diffusion(batch, ratio, _chosen(batch, draws), mask_token_id=mask)
        case Sdar():
            ratio = _ratios(spec, draws, batch.num_documents)
            return objectives.sdar(batch, ratio, _chosen(batch, draws), mask_token_id=mask, block_length=length)
        case Bd3lm():
            return objectives.block_diffusion(
                batch,
                _ratios(spec, draws, batch.num_blocks(length)),
                _chosen(batch, draws),
                mask_token_id=mask,
                block_length=length,
                context=spec.regime,
                causal_weight=spec.causal_weight,
            )
        case FastDllmV2():
            return objectives.complementary(
                batch,
                _ratios(spec, draws, batch.num_blocks(length)),
                _chosen(batch, draws),
                mask_token_id=mask,
                block_length=length,
                shift=spec.shift,
                context=spec.regime,
                causal_weight=spec.causal_weight,
                frozen_context=spec.context == "frozen",
            )
        case DiffusionGemma():
            made = objectives.uniform_noise(
                batch,
                _ratios(spec, draws, batch.num_documents),
                _chosen(batch, draws),
                draws.uniform("token", *batch.ids.shape),
                vocab_size=facts.vocab_size,
                block_length=length,
                context=spec.regime,
                causal_weight=spec.causal_weight,
            )
            told = float(draws.uniform("condition", 1)) < spec.self_conditioning
            return replace(made, conditioned=told)


def _chosen(batch: Batch, draws: StepDraws) -> Tensor:
    """[B, L], which tokens become noise."""
    return draws.uniform("mask", *batch.ids.shape)


def _ratios(spec: Noisy, draws: StepDraws, groups: int) -> Tensor:
    """[groups]"""
    within = draws.uniform("within", groups)
    spread = noise.stratified(draws.uniform("order", groups), within) if spec.stratified else within
    ratio = noise.ratios(spread, *spec.ratios)
    if isinstance(spec, Masked) and spec.full_share:
        return noise.with_full(ratio, draws.uniform("full", groups), spec.full_share)
    return ratio
