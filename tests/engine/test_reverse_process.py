"""The samplers of MDLM and BD3-LM against what their reverse processes must do, computed by enumeration.

A slot is revealed at a random time that depends on nothing else. So the law of an ancestral sampler is a sum over the
steps in which the slots could be revealed: slots of one step are drawn independently, given those of earlier steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import pytest
import torch
from tests import oracles
from tests.engine import helpers
from tests.oracles import Canvas, Joint, Law

from anyorder.decoders.choose import Chooser
from anyorder.events import Committed, Event
from anyorder.policies.catalog import Schedule
from anyorder.policies.noise import SHARES, Noise
from anyorder.policies.schedule import PassSchedule

SAMPLES = 400
TANGLED = oracles.scrambled(length=3, num_symbols=2, seed=3)
FOUR = oracles.scrambled(length=4, num_symbols=2, seed=5)
EPS = 0.2
"""Large, so that what is left at the end of the time grid matters."""

MASKED: dict[Noise, Any] = {
    "loglinear": lambda t: t,
    "cosine": lambda t: 2 * math.sin(math.pi * t / 4) ** 2,
    "square": lambda t: t**2,
    "square_root": lambda t: t**0.5,
    "log": lambda t: math.log(1 + t) / math.log(2),
}
"""Share of masked slots at time t, in other words than the code has."""

Steps = Sequence[int]
"""For every slot the step that reveals it."""


def grid(noise: Noise, steps: int) -> list[float]:
    """MDLM: chance that a slot is revealed by each step from 1 down to EPS, and behind them."""
    masked = [MASKED[noise](1 - (1 - EPS) * step / steps) for step in range(steps + 1)]
    return [now - then for now, then in itertools.pairwise(masked)] + [masked[-1]]


def block_grid(noise: Noise, steps: int) -> list[float]:
    """BD3-LM: its times are 1 / (steps - 1) apart and its steps 1 / steps long; the last one reveals all."""
    left, chances = 1.0, list[float]()
    for step in range(steps - 1):
        time = 1 - step / (steps - 1)
        kept = MASKED[noise](max(time - 1 / steps, 0)) / MASKED[noise](time)
        chances.append(left * (1 - kept))
        left *= kept
    return [*chances, left]


def reveals(chances: Sequence[float], slots: int) -> Iterator[tuple[float, Steps]]:
    """Every way in which the slots can be revealed, with its probability."""
    for steps in itertools.product(range(len(chances)), repeat=slots):
        yield math.prod(chances[step] for step in steps), steps


def law_of(joint: Joint, chances: Sequence[float], *, best_at: int | None = None) -> Law:
    """The law of the finished canvases; at step `best_at` slots get their best token."""
    law: Law = {}
    for chance, steps in reveals(chances, joint.length):
        for share, canvas in drawn(joint, steps, best_at):
            law[canvas] = law.get(canvas, 0.0) + chance * share
    return law


def drawn(joint: Joint, steps: Steps, best_at: int | None) -> Iterable[tuple[float, Canvas]]:
    reached: Law = {(joint.mask_id,) * joint.length: 1.0}
    for step in sorted(set(steps)):
        following: Law = {}
        for canvas, mass in reached.items():
            for share, filled in filled_at(
                joint, canvas, [s for s, at in enumerate(steps) if at == step], step == best_at
            ):
                following[filled] = following.get(filled, 0.0) + mass * share
        reached = following
    return [(mass, canvas) for canvas, mass in reached.items()]


def filled_at(joint: Joint, canvas: Canvas, slots: list[int], best: bool) -> Iterator[tuple[float, Canvas]]:
    marginals = joint.marginals(torch.tensor([canvas]))[0, slots]
    if best:
        options = [(1.0, tuple(marginals.argmax(-1).tolist()))]
    else:
        options = [
            (math.prod(float(row[token]) for row, token in zip(marginals, tokens, strict=True)), tokens)
            for tokens in itertools.product(range(joint.num_symbols), repeat=len(slots))
        ]
    for share, tokens in options:
        named = dict(zip(slots, tokens, strict=True))
        yield share, tuple(named.get(slot, token) for slot, token in enumerate(canvas))


def order_of(events: Iterable[Event], request: int) -> tuple[tuple[int, ...], ...]:
    """The slots of every pass that revealed any."""
    return tuple(tuple(event.slots) for event in events if isinstance(event, Committed) and event.request == request)


def choosers(joint: Joint, policy: str) -> list[Chooser]:
    return [helpers.chooser(joint, policy, request=request, confidence="filtered") for request in range(SAMPLES)]


def assert_law(law: dict[Any, float], seen: Iterable[Any]) -> None:
    assert sum(law.values()) == pytest.approx(1)
    statistic, bound = oracles.chi_square(seen, law)
    assert statistic < bound, f"chi-square {statistic:.1f} is above {bound:.1f}"


# ---------------------------------------------------------------- first hitting


@pytest.mark.parametrize("size", [4, 2, 1])
def test_first_hitting_reveals_one_slot_at_a_time_in_any_order(size: int) -> None:
    """Equal rates: which masked slot is hit next is uniform, block after block."""
    make = helpers.block(FOUR, offset=4, block_length=size)
    _, events, _ = helpers.run(FOUR, make, choosers(FOUR, "first_hitting"), offset=4)
    blocks = [range(start, start + size) for start in range(4, 8, size)]
    orders = [tuple(itertools.chain(*parts)) for parts in itertools.product(*map(itertools.permutations, blocks))]
    law = {tuple((slot,) for slot in order): 1 / len(orders) for order in orders}
    assert_law(law, (order_of(events, request) for request in range(SAMPLES)))


@pytest.mark.parametrize("scheme", ["block", "none"])
@pytest.mark.parametrize("size", [4, 2, 1])
def test_first_hitting_samples_the_joint(size: int, scheme: str) -> None:
    make = helpers.block(FOUR, offset=4, block_length=size, scheme=scheme, fuse_write=True)
    answers, _, _ = helpers.run(FOUR, make, choosers(FOUR, "first_hitting"), offset=4)
    assert_law(FOUR.law(), answers)


def test_first_hitting_of_a_whole_canvas_samples_the_joint() -> None:
    answers, _, _ = helpers.run(FOUR, helpers.full(FOUR, offset=1), choosers(FOUR, "first_hitting"), offset=1)
    assert_law(FOUR.law(), answers)


# ---------------------------------------------------------------- ancestral


@pytest.mark.parametrize("steps", [2, 3, 8])
@pytest.mark.parametrize("noise", list(SHARES))
def test_the_chances_are_those_of_the_noise(noise: Noise, steps: int) -> None:
    """To the last digit, which no sample shows: chance by chance, of what is still masked."""
    for kind, chances in (("ancestral", grid(noise, steps)), ("ancestral_blocks", block_grid(noise, steps))):
        schedule = PassSchedule(kind=cast(Schedule, kind), total=3, steps=steps, eps=EPS, noise=noise)
        left = 1.0
        for step, chance in enumerate(chances):
            assert schedule.probability(step) * left == pytest.approx(chance, abs=1e-12)
            left -= chance


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("noise", list(SHARES))
def test_ancestral_steps_have_exactly_their_law(noise: Noise, steps: int) -> None:
    make = helpers.full(TANGLED, offset=1, steps=steps, eps=EPS, noise=noise)
    answers, events, _ = helpers.run(TANGLED, make, choosers(TANGLED, "ddpm_cache"), offset=1)
    assert_law(law_of(TANGLED, grid(noise, steps), best_at=steps), answers)
    assert_law(orders(grid(noise, steps)), (order_of(events, request) for request in range(SAMPLES)))


@pytest.mark.parametrize("steps", [2, 5])
@pytest.mark.parametrize("noise", list(SHARES))
def test_ancestral_steps_of_a_block_have_exactly_their_law(noise: Noise, steps: int) -> None:
    make = helpers.block(TANGLED, offset=3, block_length=3, steps=steps, noise=noise, fuse_write=True)
    answers, events, _ = helpers.run(TANGLED, make, choosers(TANGLED, "ddpm"), offset=3)
    assert_law(law_of(TANGLED, block_grid(noise, steps)), answers)
    assert_law(orders(block_grid(noise, steps), first=3), (order_of(events, request) for request in range(SAMPLES)))


def orders(chances: Sequence[float], first: int = 1) -> dict[Any, float]:
    """The law of the sets that are revealed together, in their order; steps that reveal nothing cost no pass."""
    law: dict[Any, float] = {}
    for chance, steps in reveals(chances, TANGLED.length):
        sets = tuple(tuple(first + s for s, at in enumerate(steps) if at == step) for step in sorted(set(steps)))
        law[sets] = law.get(sets, 0.0) + chance
    return law


@pytest.mark.parametrize("noise", list(SHARES))
def test_many_steps_approach_first_hitting(noise: Noise) -> None:
    """The chance that two slots share a step falls as 1 / steps; what remains is a uniform order."""
    alone = dict.fromkeys(itertools.permutations([(1,), (2,), (3,)]), 1 / 6)
    laws = [orders(block_grid(noise, steps)) for steps in (4, 16, 64)]
    far = [sum(abs(law[order] - alone.get(order, 0.0)) for order in law) / 2 for law in laws]
    assert far == sorted(far, reverse=True)
    assert far[-1] < 0.12
    joint = [oracles.total_variation(law_of(TANGLED, block_grid(noise, steps)), TANGLED.law()) for steps in (2, 16)]
    assert joint[1] < joint[0] / 3


def test_the_chi_square_notices_another_noise() -> None:
    """The tests above must be able to fail."""
    make = helpers.full(TANGLED, offset=1, steps=3, eps=EPS, noise="square")
    _, events, _ = helpers.run(TANGLED, make, choosers(TANGLED, "ddpm_cache"), offset=1)
    seen = [order_of(events, request) for request in range(SAMPLES)]
    for other in ("loglinear", "square_root", "log"):
        with pytest.raises(AssertionError, match="chi-square"):
            assert_law(orders(grid(other, 3)), seen)
