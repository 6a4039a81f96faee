"""The loss of the exact denoiser is an entropy, known to the last digit: a wrong weight or a leak in a mask shows."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from tests.oracles import Joint, brackets, checksum, markov, scrambled
from tests.training.exact import (
    ExactDenoiser,
    chance,
    conditional,
    draws_for,
    entropy,
    everything,
    nodes,
    per_document,
    subsets,
)
from torch import Tensor

from anyorder.training import objectives
from anyorder.training.batch import Batch
from anyorder.training.passes import TrainingPass

JOINTS = {
    "scrambled": scrambled(4, 2, seed=1),
    "checksum": checksum(3, 3),
    "brackets": brackets(2),
    "markov": markov([0.8, 0.2], [[0.9, 0.1], [0.4, 0.6]], 4),
}
Objective = Callable[[Batch, float, Tensor], TrainingPass]


@pytest.fixture(params=JOINTS)
def joint(request: pytest.FixtureRequest) -> Joint:
    return JOINTS[request.param]


def filled(count: int, ratio: float) -> Tensor:
    return torch.full((count,), ratio, dtype=torch.float64)


def expected(joint: Joint, objective: Objective, denoiser: ExactDenoiser, ratio: float, *, per_row: int = 1) -> float:
    """N times the expected loss at one ratio: nats per document, over all documents and all masks."""
    batch, probability = everything(joint, per_row=per_row)
    total = 0.0
    for chosen in subsets(joint.length):
        p = objective(batch, ratio, draws_for(chosen, batch))
        parts = per_document(batch, denoiser, p)
        total += chance(chosen, ratio) * float((probability * parts).sum())
    return total * batch.ids.numel()


def integrand(joint: Joint, slot: int) -> list[tuple[int, float]]:
    """(k, h) for every set of other slots: t^k (1 - t)^(n - k) h is what the slot adds to the loss at t, n = L - 1."""
    others = [other for other in range(joint.length) if other != slot]
    found: list[tuple[int, float]] = []
    for hidden in subsets(len(others)):
        given = [other for other, no in zip(others, hidden, strict=True) if not no]
        found.append((sum(hidden), conditional(joint, slot, given)))
    return found


def below(joint: Joint, eps: float) -> float:
    """The integral of the masked-diffusion loss over t from 0 to eps, in closed form."""
    n = joint.length - 1
    return sum(
        h * sum(math.comb(n - k, j) * (-1) ** j * eps ** (k + j + 1) / (k + j + 1) for j in range(n - k + 1))
        for slot in range(joint.length)
        for k, h in integrand(joint, slot)
    )


def masked(joint: Joint) -> Objective:
    return lambda batch, ratio, uniform: objectives.masked_diffusion(
        batch, filled(batch.num_documents, ratio), uniform, mask_token_id=joint.mask_id
    )


def blocks(joint: Joint, length: int, context: objectives.ContextSight = "block") -> Objective:
    return lambda batch, ratio, uniform: objectives.block_diffusion(
        batch,
        filled(batch.num_blocks(length), ratio),
        uniform,
        mask_token_id=joint.mask_id,
        block_length=length,
        context=context,
    )


def test_masked_diffusion_is_the_entropy(joint: Joint) -> None:
    """The ELBO of a perfect denoiser is tight: every order of the chain rule, averaged."""
    got = sum(w * expected(joint, masked(joint), ExactDenoiser(joint), t) for t, w in nodes(0, 1))
    assert got == pytest.approx(entropy(joint, range(joint.length)), rel=1e-12)
    assert below(joint, 1.0) == pytest.approx(got, rel=1e-12)


def test_masked_diffusion_from_eps_on_misses_what_lies_below(joint: Joint) -> None:
    eps = 0.2
    got = sum(w * expected(joint, masked(joint), ExactDenoiser(joint), t, per_row=2) for t, w in nodes(eps, 1))
    # the batch is filled up with documents that count 0, but the mean is over them as well as over the others
    assert got * (1 - eps) == pytest.approx(entropy(joint, range(joint.length)) - below(joint, eps), rel=1e-12)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("context", ["block", "causal"])
def test_block_diffusion_is_the_sum_of_the_blocks_conditional_entropies(
    joint: Joint, length: int, context: objectives.ContextSight
) -> None:
    """Three documents to a row, so that blocks and rows do not line up."""
    objective = blocks(joint, length, context)
    got = sum(w * expected(joint, objective, ExactDenoiser(joint), t, per_row=3) for t, w in nodes(0, 1))
    assert got == pytest.approx(entropy(joint, range(joint.length)), rel=1e-12)


def test_each_block_adds_its_own_conditional_entropy(joint: Joint) -> None:
    """Not only the sum is right: only the second block is masked here, at its own ratio."""
    batch, probability = everything(joint)
    total = 0.0
    for t, w in nodes(0, 1):
        ratio = filled(batch.num_blocks(2), 0.123)
        ratio[torch.arange(len(ratio)) % math.ceil(joint.length / 2) == 1] = t
        for chosen in subsets(joint.length):
            if chosen[0] or chosen[1]:
                continue
            p = objectives.block_diffusion(
                batch, ratio, draws_for(chosen, batch), mask_token_id=joint.mask_id, block_length=2
            )
            mass = chance(chosen[2:4], t)
            total += w * mass * float((probability * per_document(batch, ExactDenoiser(joint), p)).sum())
    slots = range(min(4, joint.length))
    assert total * batch.ids.numel() == pytest.approx(entropy(joint, slots) - entropy(joint, [0, 1]), rel=1e-12)


def test_a_clipped_interval_gives_its_share_of_the_integral() -> None:
    """BD3-LM's clipping keeps the weight 1/t: the mean over U(low, high) of the same integrand."""
    joint = JOINTS["scrambled"]
    low, high = 0.3, 0.8
    got = sum(w * expected(joint, blocks(joint, 4), ExactDenoiser(joint), t) for t, w in nodes(low, high))
    assert got * (high - low) == pytest.approx(below(joint, high) - below(joint, low), rel=1e-12)


def test_sdar_is_the_entropy(joint: Joint) -> None:
    def objective(batch: Batch, ratio: float, uniform: Tensor) -> TrainingPass:
        return objectives.sdar(
            batch, filled(batch.num_documents, ratio), uniform, mask_token_id=joint.mask_id, block_length=2
        )

    got = sum(w * expected(joint, objective, ExactDenoiser(joint), t) for t, w in nodes(0, 1))
    assert got == pytest.approx(entropy(joint, range(joint.length)), rel=1e-12)


def complementary_entropy(joint: Joint, length: int, ratio: float, *, shift: bool) -> float:
    """Both views of every block by conditional entropies; with shift a block's first slot knows earlier blocks only."""
    total = 0.0
    for chosen in subsets(joint.length):
        for slot in range(int(shift), joint.length):
            start = slot // length * length
            block = range(start, min(start + length, joint.length))
            open_ones = [s for s in block if chosen[s] == chosen[slot]]
            known = [s for s in block if s not in open_ones or (shift and s == 0)]
            given = [] if shift and slot == start else known
            total += chance(chosen, ratio) * conditional(joint, slot, [*range(start), *given])
    return total


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("context", ["block", "causal"])
def test_complementary_views_are_the_entropies_of_what_each_leaves_open(
    joint: Joint, length: int, shift: bool, context: objectives.ContextSight
) -> None:
    def objective(batch: Batch, ratio: float, uniform: Tensor) -> TrainingPass:
        return objectives.complementary(
            batch,
            filled(batch.num_blocks(length), ratio),
            uniform,
            mask_token_id=joint.mask_id,
            block_length=length,
            shift=shift,
            context=context,
        )

    got = expected(joint, objective, ExactDenoiser(joint, shift=shift), 0.3, per_row=2)
    supervised = joint.length - int(shift)
    assert got / joint.length * supervised == pytest.approx(
        complementary_entropy(joint, length, 0.3, shift=shift), rel=1e-12
    )


@pytest.mark.parametrize("length", [2, 3])
def test_with_a_frozen_context_the_first_token_of_a_block_is_the_causal_modes_own(joint: Joint, length: int) -> None:
    """The clean rows are scored by nobody: what is left out is what the rows in front of the blocks added."""

    def objective(frozen: bool) -> Objective:
        return lambda batch, ratio, uniform: objectives.complementary(
            batch,
            filled(batch.num_blocks(length), ratio),
            uniform,
            mask_token_id=joint.mask_id,
            block_length=length,
            context="causal",
            frozen_context=frozen,
        )

    denoiser = ExactDenoiser(joint, shift=True)
    left_out = sum(conditional(joint, slot, range(slot)) for slot in range(length, joint.length, length))
    both = [expected(joint, objective(frozen), denoiser, 0.3) / joint.length for frozen in (False, True)]
    assert (both[0] - both[1]) * (joint.length - 1) == pytest.approx(left_out, rel=1e-12)


@pytest.mark.parametrize(("length", "offset"), [(1, 0), (2, 0), (2, 1), (3, 2)])
@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_a_draft_knows_what_stands_before_its_masks(joint: Joint, length: int, offset: int, decay: float) -> None:
    """The row of slot i guesses slot i + 1 from everything before i's block."""
    batch, probability = everything(joint, per_row=2)
    p = objectives.drafting(batch, mask_token_id=joint.mask_id, block_length=length, offset=offset, depth_decay=decay)
    got = float((probability * per_document(batch, ExactDenoiser(joint, shift=True), p)).sum())
    want = total = 0.0
    for slot in range(joint.length - 1):
        depth = (slot + offset) % length
        want += decay**depth * conditional(joint, slot + 1, range(max(0, slot - depth)))
        total += decay**depth
    assert got * batch.num_documents == pytest.approx(want / total, rel=1e-12)
    assert p.context == batch.ids.numel()


@pytest.mark.parametrize("per_row", [1, 3])
def test_autoregressive_is_the_entropy_behind_the_first_token(joint: Joint, per_row: int) -> None:
    batch, probability = everything(joint, per_row=per_row)
    parts = per_document(batch, ExactDenoiser(joint, shift=True), objectives.autoregressive(batch))
    supervised = batch.num_documents * (joint.length - 1)
    got = float((probability * parts).sum()) * supervised
    assert got == pytest.approx(entropy(joint, range(joint.length)) - entropy(joint, [0]), rel=1e-12)


def test_the_causal_term_rides_along() -> None:
    """Two losses in one pass; a row that both ask for the same token is asked once, for the sum."""
    joint = JOINTS["markov"]
    batch, probability = everything(joint)
    network = ExactDenoiser(joint, shift=True)
    uniform = draws_for((False, False, True, True), batch)
    ratio = filled(batch.num_blocks(2), 0.5)

    def loss_of(weight: float) -> float:
        p = objectives.complementary(
            batch, ratio, uniform, mask_token_id=2, block_length=2, context="causal", causal_weight=weight
        )
        assert (p.rows[1:] > p.rows[:-1]).all()
        return float((probability * per_document(batch, network, p)).sum())

    causal = float((probability * per_document(batch, network, objectives.autoregressive(batch))).sum())
    assert loss_of(0.5) - loss_of(0) == pytest.approx(0.5 * causal, rel=1e-12)


def noisy_entropy(joint: Joint, length: int, ratio: float) -> float:
    """Σ H(X_i | earlier blocks, noisy own block), by enumeration of canvases and of what they look like."""
    law = joint.law()
    symbols = range(joint.num_symbols)
    total = 0.0
    for slot in range(joint.length):
        start = slot // length * length
        stop = min(start + length, joint.length)
        groups: dict[tuple[tuple[int, ...], tuple[int, ...]], dict[int, float]] = {}
        for canvas, p in law.items():
            for looks in (
                torch.cartesian_prod(*[torch.tensor(symbols)] * (stop - start)).view(-1, stop - start).tolist()
            ):
                likelihood = math.prod(
                    ratio / len(symbols) + (1 - ratio) * (x == y)
                    for x, y in zip(canvas[start:stop], looks, strict=True)
                )
                group = groups.setdefault((canvas[:start], tuple(looks)), dict.fromkeys(symbols, 0.0))
                group[canvas[slot]] += p * likelihood
        for group in groups.values():
            mass = sum(group.values())
            total -= sum(p * math.log(p / mass) for p in group.values() if p > 0)
    return total


@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("context", ["block", "causal"])
def test_uniform_noise_is_the_entropy_given_what_the_noise_leaves(
    length: int, context: objectives.ContextSight
) -> None:
    joint, ratio = JOINTS["checksum"], 0.4
    batch, probability = everything(joint)
    network = ExactDenoiser(joint, noise=ratio, clean=batch.ids.numel())
    total = 0.0
    for chosen in subsets(joint.length):
        for looks in torch.cartesian_prod(*[torch.arange(3)] * joint.length).tolist():
            p = objectives.uniform_noise(
                batch,
                filled(batch.num_documents, ratio),
                draws_for(chosen, batch),
                ((torch.tensor(looks) + 0.5) / 3)[batch.positions],
                vocab_size=3,
                block_length=length,
                context=context,
            )
            mass = chance(chosen, ratio) / 3**joint.length
            total += mass * float((probability * per_document(batch, network, p)).sum())
    assert total * batch.ids.numel() == pytest.approx(noisy_entropy(joint, length, ratio), rel=1e-12)
