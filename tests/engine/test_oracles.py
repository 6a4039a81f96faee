"""Sampling against exactly known joints.

One slot per pass must reproduce the joint, whatever the decoder; several slots per pass must show exactly the error of
a product of marginals; the entropy bound must keep that error below its knob.

Which policies are unbiased at temperature 1 follows from what they look at. A policy that picks slots before their
tokens are drawn, or by their marginals (sequential, random, origin, entropy, margin, entropy bounds), samples the joint
at one slot per pass. A policy that ranks slots by the probability of the token *drawn* for them (low_confidence and its
SDAR and Dream namesakes, threshold, factor) does not, even for independent slots: an unlikely draw is put back and
drawn again. Published samplers have the same bias; here it is held to its exact size.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracles
from tests.decoders.trees import random_tree
from tests.engine import helpers
from tests.engine.helpers import Factory
from tests.oracles import Joint, Law
from torch import Tensor

from anyorder.canvas import Canvas, Hole
from anyorder.decoders.choose import Chooser
from anyorder.decoders.draft import DraftTree
from anyorder.decoders.forecast import Forecast
from anyorder.events import Committed
from anyorder.policies import schedule, score, select

SAMPLES = 350
TANGLED = oracles.scrambled(length=3, num_symbols=2, seed=3)
CHAIN = oracles.markov([0.7, 0.3], [[0.9, 0.1], [0.35, 0.65]], length=3)


def choosers(joint: Joint, policy: str, count: int = SAMPLES, **kwargs: Any) -> list[Chooser]:
    return [helpers.chooser(joint, policy, request=request, **kwargs) for request in range(count)]


def assert_samples_of(law: Law, answers: Iterable[tuple[int, ...]]) -> None:
    statistic, bound = oracles.chi_square(answers, law)
    assert statistic < bound, f"chi-square {statistic:.1f} is above {bound:.1f}"


# ---------------------------------------------------------------- one slot per pass


def whole(joint: Joint, offset: int) -> Factory:
    return helpers.full(joint, offset=offset)


def whole_in_blocks(joint: Joint, offset: int) -> Factory:
    return helpers.full(joint, offset=offset, block_length=2)


def blocks(**kwargs: Any) -> Callable[[Joint, int], Factory]:
    return lambda joint, offset: helpers.block(joint, offset=offset, **kwargs)


def masks_last(**kwargs: Any) -> Callable[[Joint, int], Factory]:
    return lambda joint, offset: helpers.reordered(joint, offset=offset, **kwargs)


def left_to_right(joint: Joint, offset: int) -> Factory:
    return helpers.causal(joint, offset=offset)


ONE_BY_ONE: dict[str, tuple[Callable[[Joint, int], Factory], bool, str, dict[str, Any]]] = {
    "causal": (left_to_right, True, "random", {}),
    "causal, no cache": (
        lambda joint, offset: helpers.causal(joint, offset=offset, exact_cache=False),
        True,
        "random",
        {},
    ),
    "full, random": (whole, False, "random", {}),
    "full, shifted, random": (
        lambda joint, offset: helpers.full(joint, offset=offset, shift=True),
        True,
        "random",
        {},
    ),
    "full, sequential": (whole, False, "sequential", {}),
    "full, entropy": (whole, False, "entropy", {}),
    "full, entropy drawn": (whole, False, "entropy", {"alg_temp": 0.5}),
    "full, margin": (whole, False, "topk_margin", {}),
    "full, entropy bound 0": (whole, False, "entropy_bound", {"knobs": {"entropy_bound": 0.0}}),
    "full in blocks, random": (whole_in_blocks, False, "random", {}),
    "block, random": (blocks(block_length=4), False, "random", {}),
    "block, shifted, two blocks": (blocks(block_length=2, shift=True), True, "random", {}),
    "block, two blocks": (blocks(block_length=2), False, "entropy", {}),
    "block, two blocks, no cache": (blocks(block_length=2, scheme="none", shift=True), True, "random", {}),
    "block, sub-blocks": (
        blocks(block_length=4, sub_block_length=2, shift=True, scheme="sub_block"),
        True,
        "entropy_bounded",
        {"knobs": {"entropy_bound": 0.0}},
    ),
    "masks last, random": (masks_last(sliding=False, block_length=2), False, "random", {}),
    "masks last, sliding, random": (masks_last(sliding=True, block_length=2), False, "first_hitting", {}),
    "masks last, sliding, entropy and distance": (
        masks_last(sliding=True, block_length=2),
        False,
        "entropy_threshold",
        {"knobs": {"entropy_threshold": 0.0}},
    ),
    "masks last, sliding, no cache": (
        masks_last(sliding=True, block_length=2, scheme="none"),
        False,
        "first_hitting",
        {},
    ),
}


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_one_slot_per_pass_samples_the_joint(name: str) -> None:
    joint = TANGLED if "entropy" in name or "margin" in name else CHAIN
    make, shift, policy, kwargs = ONE_BY_ONE[name]
    answers, events, _ = helpers.run(joint, make(joint, 1), choosers(joint, policy, **kwargs), offset=1, shift=shift)
    assert all(len(event.slots) == 1 for event in events if isinstance(event, Committed))
    assert_samples_of(joint.law(), answers)


def test_a_sliding_window_does_not_halt_at_the_end_of_a_block() -> None:
    """A block's last slots are decided with nothing beside them; a window that slides always has something in sight."""
    joint = oracles.markov([0.5, 0.5], [[0.95, 0.05], [0.05, 0.95]], length=12)
    found: list[tuple[int, int]] = []
    for sliding in (False, True):
        make = helpers.reordered(joint, offset=1, sliding=sliding, block_length=3)
        knobs = {"entropy_threshold": 0.4}
        _, _, (decoder,) = helpers.run(joint, make, choosers(joint, "entropy_threshold", 1, knobs=knobs), offset=1)
        found.append((decoder.passes, decoder.positions))
    assert found == [(8, 29), (7, 31)]


class _Bushy:
    """Drafts all there is, or some of it, in random order."""

    def __init__(self, canvas: Canvas, num_symbols: int, seed: int) -> None:
        self.rng = random.Random(seed + canvas.request)
        self.num_symbols = num_symbols

    def draft(self, ids: Sequence[int], depth: int, forecasts: Sequence[Forecast] = ()) -> DraftTree:
        return random_tree(self.rng, most=12, depth=depth, vocabulary=self.num_symbols)


@pytest.mark.parametrize("joint", [CHAIN, TANGLED], ids=["chain", "tangled"])
def test_drafts_sample_the_joint(joint: Joint) -> None:
    """Whatever is drafted: what is accepted is what the slot's own random number draws, given its own path."""
    make = helpers.drafting(joint, lambda canvas: _Bushy(canvas, joint.num_symbols, 7), offset=1)
    answers, events, _ = helpers.run(joint, make, choosers(joint, "random"), offset=1, shift=True)
    assert_samples_of(joint.law(), answers)
    sizes = [len(event.slots) for event in events if isinstance(event, Committed)]
    assert max(sizes) > 2
    plain, _, _ = helpers.run(joint, left_to_right(joint, 1), choosers(joint, "random"), offset=1, shift=True)
    assert answers == plain


def test_the_chi_square_notices_a_wrong_law() -> None:
    """The tests above must be able to fail: samples of the chain are none of the tangled joint."""
    answers, _, _ = helpers.run(CHAIN, whole(CHAIN, 1), choosers(CHAIN, "random"), offset=1)
    statistic, bound = oracles.chi_square(answers, TANGLED.law())
    assert statistic > 3 * bound


def test_the_write_pass_matters() -> None:
    """A decoder that does not store a finished block's tokens would condition the next block on masks."""
    joint = oracles.cities(0.5, words=4)
    make = helpers.block(joint, offset=2, block_length=2)
    answers, events, decoders = helpers.run(joint, make, choosers(joint, "random", count=50), offset=2)
    assert set(answers) == {(0, 0, 0, 0), (1, 1, 1, 1)}
    # per sequence: write the prompt, 2 slots, write, 2 slots
    assert {decoder.passes for decoder in decoders} == {6}
    assert len([e for e in events if isinstance(e, Committed)]) == 50 * 4


def test_holes_are_sampled_given_both_sides() -> None:
    joint = TANGLED
    known = joint.law()
    given = {canvas: p for canvas, p in known.items() if canvas[1] == 1}
    law = {canvas: p / sum(given.values()) for canvas, p in given.items()}
    make = helpers.full(joint, offset=1)
    answers, _, _ = helpers.run(joint, make, choosers(joint, "random"), offset=1, prompt=[0, Hole(1), 1])
    assert_samples_of(law, answers)


# ---------------------------------------------------------------- policies that rank what was drawn


def surest(confidence: Tensor) -> Tensor:
    return select.quota(confidence, torch.ones_like(confidence, dtype=torch.bool), 1)


def above(tau: float) -> Callable[[Tensor], Tensor]:
    return lambda confidence: select.threshold(confidence, torch.ones_like(confidence, dtype=torch.bool), tau)


def factored(confidence: Tensor) -> Tensor:
    return select.factor(confidence, torch.ones_like(confidence, dtype=torch.bool), 1.0)


RANKING_DRAWS: dict[str, tuple[Callable[[Tensor], Tensor], dict[str, Any]]] = {
    "low_confidence": (surest, {}),
    "low_confidence_static": (surest, {}),
    "maskgit_plus": (surest, {}),
    "threshold": (above(0.8), {"knobs": {"threshold": 0.8}}),
    "factor": (factored, {}),
}


@pytest.mark.parametrize("policy", RANKING_DRAWS)
def test_ranking_drawn_tokens_has_exactly_the_bias_of_redrawing(policy: str) -> None:
    choose, kwargs = RANKING_DRAWS[policy]
    law = oracles.law_of(TANGLED, oracles.choosing_proposals(TANGLED, choose))
    assert oracles.total_variation(law, TANGLED.law()) > 0.02  # biased
    answers, _, _ = helpers.run(TANGLED, whole(TANGLED, 1), choosers(TANGLED, policy, **kwargs), offset=1)
    assert_samples_of(law, answers)


def test_redrawing_squares_the_rare_token_of_an_independent_slot() -> None:
    """Closed form: a token of probability 1/10 beside a fair slot is committed with probability 1/100."""
    joint = oracles.independent([[0.5, 0.5], [0.9, 0.1]])
    law = oracles.law_of(joint, oracles.choosing_proposals(joint, surest))
    assert sum(p for canvas, p in law.items() if canvas[1] == 1) == pytest.approx(0.01)


@pytest.mark.parametrize("joint", [TANGLED, CHAIN, oracles.checksum(3, 3)], ids=["tangled", "chain", "checksum"])
@pytest.mark.parametrize("rank", [score.entropy, score.margin], ids=["entropy", "margin"])
def test_ranking_marginals_has_no_bias(joint: Joint, rank: Callable[[Tensor], Tensor]) -> None:
    law = oracles.law_of(joint, oracles.choosing_slots(joint, lambda p: surest(rank(p.clamp_min(1e-30).log()))))
    assert oracles.total_variation(law, joint.law()) < 1e-12


# ---------------------------------------------------------------- Dream's ancestral sampler


def origin_sets(joint: Joint, steps: int) -> Callable[[int], Iterable[tuple[float, frozenset[int]]]]:
    def sets(number: int) -> Iterable[tuple[float, frozenset[int]]]:
        chance = schedule.transfer_probability(number, steps, 1e-3)
        for flags in itertools.product((True, False), repeat=joint.length):
            probability = math.prod(chance if flag else 1 - chance for flag in flags)
            if probability:
                yield probability, frozenset(slot for slot, flag in enumerate(flags) if flag)

    return sets


@pytest.mark.parametrize("steps", [1, 3])
def test_origin_commits_each_slot_by_itself(steps: int) -> None:
    law = oracles.in_random_sets(TANGLED, origin_sets(TANGLED, steps))
    make = helpers.full(TANGLED, offset=1, steps=steps)
    answers, _, decoders = helpers.run(TANGLED, make, choosers(TANGLED, "origin"), offset=1)
    assert all(decoder.passes <= steps for decoder in decoders)
    assert_samples_of(law, answers)


def test_origin_approaches_the_joint_with_more_steps() -> None:
    """Its error is at most the chance that two slots share a pass, which falls as 1 / steps."""
    errors = []
    for steps in (1, 2, 4, 8, 16):
        law = oracles.in_random_sets(TANGLED, origin_sets(TANGLED, steps))
        errors.append(oracles.total_variation(law, TANGLED.law()))
        assert errors[-1] <= math.comb(TANGLED.length, 2) * 1.01 / steps
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 5


# ---------------------------------------------------------------- several slots per pass


@pytest.mark.parametrize("share", [0.5, 0.3])
@pytest.mark.parametrize("words", [2, 3])
def test_a_parallel_commit_mixes_two_cities_exactly_as_often_as_its_marginals_do(share: float, words: int) -> None:
    """New York or New Delhi: total variation 1 - s^k - (1 - s)^k, and as many answers that are no city."""
    joint = oracles.cities(share, words)
    law = oracles.law_of(joint, oracles.choosing_slots(joint, lambda p: torch.ones(len(p), dtype=torch.bool)))
    error = 1 - share**words - (1 - share) ** words
    assert oracles.total_variation(law, joint.law()) == pytest.approx(error)
    answers, _, decoders = helpers.run(
        joint, whole(joint, 1), choosers(joint, "threshold", count=400, knobs={"threshold": 0.0}), offset=1
    )
    assert {decoder.passes for decoder in decoders} == {1}
    seams = sum(len(set(answer)) > 1 for answer in answers)
    assert abs(seams - 400 * error) < 4 * math.sqrt(400 * error * (1 - error))
    assert_samples_of(law, answers)


@pytest.mark.parametrize(
    ("name", "make", "shift"),
    [
        ("full", helpers.full(oracles.cities(0.4, 4), offset=4, steps=2), False),
        ("block", helpers.block(oracles.cities(0.4, 4), offset=4, block_length=4, steps=2), False),
    ],
)
def test_two_per_pass_err_in_the_first_pass_only(name: str, make: Factory, shift: bool) -> None:
    joint = oracles.cities(0.4, 4)
    answers, events, _ = helpers.run(
        joint, make, choosers(joint, "sequential", count=400, temperature=1.0), offset=4, shift=shift
    )
    assert {len(event.slots) for event in events if isinstance(event, Committed)} == {2}
    wrong = sum(answer[0] != answer[1] for answer in answers)
    assert abs(wrong - 400 * 0.48) < 4 * math.sqrt(400 * 0.48 * 0.52)
    assert all(answer[2] == answer[3] == answer[0] for answer in answers if answer[0] == answer[1])


def test_a_parallel_commit_of_a_chain_loses_its_total_correlation() -> None:
    """KL(joint || product) is the total correlation; of a chain, the sum of the mutual informations of its links."""
    law = oracles.law_of(CHAIN, oracles.choosing_slots(CHAIN, lambda p: torch.ones(len(p), dtype=torch.bool)))
    blank = (CHAIN.mask_id,) * CHAIN.length
    links = sum(CHAIN.total_correlation(blank, pair) for pair in itertools.pairwise(range(CHAIN.length)))
    assert oracles.divergence(CHAIN.law(), law) == pytest.approx(CHAIN.total_correlation(blank, range(CHAIN.length)))
    assert oracles.divergence(CHAIN.law(), law) == pytest.approx(links)
    answers, _, _ = helpers.run(
        CHAIN, whole(CHAIN, 1), choosers(CHAIN, "low_confidence_dynamic", knobs={"threshold": 0.0}), offset=1
    )
    assert_samples_of(law, answers)


def test_independent_slots_may_be_committed_together() -> None:
    joint = oracles.independent([[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]])
    answers, _, decoders = helpers.run(
        joint, whole(joint, 1), choosers(joint, "threshold", knobs={"threshold": 0.0}), offset=1
    )
    assert {decoder.passes for decoder in decoders} == {1}
    assert_samples_of(joint.law(), answers)


# ---------------------------------------------------------------- the entropy bound


def bounded(gamma: float) -> Callable[[Tensor], Tensor]:
    def choose(marginals: Tensor) -> Tensor:
        entropies = score.entropy(marginals.clamp_min(1e-30).log())
        return select.entropy_bound(entropies, torch.ones_like(entropies, dtype=torch.bool), gamma)

    return choose


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), gamma=st.floats(0, 2.5), sharpness=st.floats(0.2, 4))
def test_the_entropy_bound_bounds_the_information_lost(seed: int, gamma: float, sharpness: float) -> None:
    """Each pass loses at most gamma nats, and the finished samples at most that for every pass with several commits."""
    joint = oracles.scrambled(3, 2, seed, sharpness)
    passes: list[float] = []
    inner = oracles.choosing_slots(joint, bounded(gamma))

    def watched(canvas: tuple[int, ...], marginals: Tensor) -> Iterable[tuple[float, tuple[int, ...]]]:
        reached = list(inner(canvas, marginals))
        before = [slot for slot, token in enumerate(canvas) if token == joint.mask_id]
        passes.append(
            joint.total_correlation(canvas, [slot for slot in before if reached[0][1][slot] != joint.mask_id])
        )
        return reached

    law = oracles.law_of(joint, watched)
    assert max(passes) <= gamma + 1e-9
    assert oracles.divergence(joint.law(), law) <= gamma * (joint.length // 2) + 1e-9


@pytest.mark.parametrize("policy", ["entropy_bound", "entropy_bounded"])
@pytest.mark.parametrize("gamma", [0.0, 0.05, 0.3, 0.7, 1.5])
def test_no_pass_of_the_engine_loses_more_than_its_bound(policy: str, gamma: float) -> None:
    joint = oracles.markov([0.6, 0.3, 0.1], [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]], length=5)
    _, events, _ = helpers.run(
        joint, whole(joint, 1), choosers(joint, policy, count=20, knobs={"entropy_bound": gamma}), offset=1
    )
    canvases = {request: [joint.mask_id] * joint.length for request in range(20)}
    together = 0
    for event in events:
        if not isinstance(event, Committed):
            continue
        canvas, slots = canvases[event.request], [slot - 1 for slot in event.slots]
        assert joint.total_correlation(canvas, slots) <= gamma + 1e-6
        together += len(slots) > 1
        for slot, token in zip(slots, event.ids, strict=True):
            canvas[slot] = token
    assert together or gamma < 1, "the bound was never used"


# ---------------------------------------------------------------- staying in a language


LANGUAGES = {"checksum": oracles.checksum(4, 3), "brackets": oracles.brackets(3)}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("policy", ["low_confidence", "random", "entropy", "topk_margin", "sequential"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_one_slot_per_pass_never_leaves_the_language(language: str, policy: str, temperature: float) -> None:
    joint = LANGUAGES[language]
    answers, _, _ = helpers.run(
        joint, whole(joint, 1), choosers(joint, policy, count=40, temperature=temperature), offset=1
    )
    assert set(answers) <= set(joint.law())


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_slots_in_one_pass_leave_the_language(language: str) -> None:
    joint = LANGUAGES[language]
    answers, _, _ = helpers.run(
        joint, whole(joint, 1), choosers(joint, "threshold", count=40, knobs={"threshold": 0.0}), offset=1
    )
    assert not set(answers) <= set(joint.law())
