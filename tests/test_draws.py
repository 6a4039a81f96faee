"""Counter-based randomness: what a draw depends on, and that it is distributed as it should be."""

from __future__ import annotations

import hashlib
import itertools
import math
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracles

from anyorder.draws import Draws

SLOTS = torch.arange(4000)


def assert_uniform(numbers: torch.Tensor, cells: int = 20) -> None:
    counts = torch.histc(numbers.double(), bins=cells, min=0, max=1).tolist()
    expected = numbers.numel() / cells
    statistic = sum((count - expected) ** 2 / expected for count in counts)
    freedom = cells - 1
    bound = freedom * (1 - 2 / (9 * freedom) + 4 * math.sqrt(2 / (9 * freedom))) ** 3
    assert statistic < bound


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a, b]))[0, 1])


@pytest.mark.parametrize("seed", [0, 1, 2, 1000, 2**62, 2**63 - 1])
def test_draws_are_uniform_over_slots(seed: int) -> None:
    numbers = Draws(seed).uniform(SLOTS, 0)
    assert numbers.dtype == torch.float64
    assert float(numbers.min()) >= 0
    assert float(numbers.max()) < 1
    assert len(set(numbers.tolist())) == len(SLOTS)
    assert_uniform(numbers)


def test_draws_are_uniform_over_passes_seeds_and_samples() -> None:
    slot = torch.tensor([7])
    for numbers in (
        [Draws(3).uniform(slot, number) for number in range(1500)],
        [Draws(number).uniform(slot, 3) for number in range(1500)],
        [Draws(3, number).uniform(slot, 3) for number in range(1500)],
    ):
        assert_uniform(torch.cat(numbers))


def test_no_two_counters_draw_together() -> None:
    """Adjacent and far seeds, samples, passes and streams, and each draw beside its neighbours."""
    base = Draws(5).uniform(SLOTS, 2)
    others = [
        Draws(6).uniform(SLOTS, 2),
        Draws(5 + 2**40).uniform(SLOTS, 2),
        Draws(5, 1).uniform(SLOTS, 2),
        Draws(5).uniform(SLOTS, 3),
        Draws(5).uniform(SLOTS, 2, "slot"),
        base.roll(1),
        base.roll(32),
    ]
    limit = 4 / math.sqrt(len(SLOTS))
    for one, other in itertools.combinations([base, *others], 2):
        assert abs(correlation(one, other)) < limit


@given(
    slots=st.lists(st.integers(0, 2**40), min_size=1, max_size=20, unique=True),
    seed=st.integers(0, 2**63 - 1),
    pass_index=st.integers(0, 2**31),
)
def test_a_draw_does_not_depend_on_its_neighbours(slots: list[int], seed: int, pass_index: int) -> None:
    together = Draws(seed).uniform(torch.tensor(slots), pass_index)
    alone = [float(Draws(seed).uniform(torch.tensor([slot]), pass_index)) for slot in slots]
    assert together.tolist() == alone


def splitmix(x: int) -> int:
    """SplitMix64's finaliser as published, on Python integers."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


@given(slot=st.integers(0, 2**40), seed=st.integers(0, 2**63 - 1), pass_index=st.integers(0, 2**20))
def test_the_int64_arithmetic_is_that_of_unsigned_integers(slot: int, seed: int, pass_index: int) -> None:
    """Products wrap and shifts are logical although torch has neither."""
    key = struct.pack("<qqqq", seed, 4, pass_index, 1)
    start = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")
    expected = (splitmix((slot * 0x9E3779B97F4A7C15 + start) % 2**64) >> 11) * 2.0**-53
    assert float(Draws(seed, 4).uniform(torch.tensor([slot]), pass_index, "slot")) == expected


def test_the_numbers_are_fixed_for_good() -> None:
    """The same on every machine and in every version: answers of old seeds must not change."""
    numbers = Draws(42, 1).uniform(torch.tensor([0, 1, 1000]), 3)
    assert numbers.tolist() == [0.4169850765418437, 0.5754619822420974, 0.2615738593761504]


# ---------------------------------------------------------------- tokens


P = [0.5, 0.25, 0.0, 0.15, 0.1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_tokens_follow_the_softmax(dtype: torch.dtype) -> None:
    logits = torch.tensor([P], dtype=torch.float64).log().to(dtype).expand(len(SLOTS), -1)
    ids = Draws(1).tokens(logits, SLOTS, 0)
    exact = logits[0].double().softmax(-1).tolist()
    statistic, bound = oracles.chi_square(((token,) for token in ids.tolist()), {(i,): p for i, p in enumerate(exact)})
    assert statistic < bound


def test_float32_and_float64_logits_draw_the_same_tokens() -> None:
    logits = torch.randn(2000, 50, generator=torch.Generator().manual_seed(0))
    slots = SLOTS[:2000]
    assert torch.equal(Draws(9).tokens(logits, slots, 4), Draws(9).tokens(logits.double(), slots, 4))


def test_a_token_without_probability_is_never_drawn() -> None:
    logits = torch.full((len(SLOTS), 9), -torch.inf)
    logits[:, 4] = 0.0
    assert set(Draws(0).tokens(logits, SLOTS, 0).tolist()) == {4}
    logits[:, 6] = -200.0  # underflows in float32
    assert set(Draws(0).tokens(logits, SLOTS, 0).tolist()) == {4}


class Edge(Draws):
    """Draws the ends of the interval."""

    def uniform(self, slots: torch.Tensor, pass_index: int, stream: object = "token") -> torch.Tensor:
        return torch.tensor([0.0, 1 - 2**-53, 1.0], dtype=torch.float64)


def test_the_ends_of_the_interval_draw_possible_tokens() -> None:
    """1.0 occurs where the device has float32 only."""
    logits = torch.tensor([[-torch.inf, 0.0, 1.0, -torch.inf]]).expand(3, -1)
    assert Edge().tokens(logits, torch.arange(3), 0).tolist() == [1, 2, 2]


def test_tokens_of_one_slot_are_not_those_of_another_pass() -> None:
    logits = torch.zeros(1, 1000)
    drawn = [int(Draws(0).tokens(logits, torch.tensor([3]), number)) for number in range(20)]
    assert len(set(drawn)) > 15


# ---------------------------------------------------------------- subsets


def without_replacement(weights: list[float], count: int) -> dict[tuple[int, ...], float]:
    """Probability of every set when slots are drawn one after the other, in proportion to what is left."""
    law: dict[tuple[int, ...], float] = {}
    for sequence in itertools.permutations(range(len(weights)), count):
        probability, left = 1.0, sum(weights)
        for slot in sequence:
            probability *= weights[slot] / left
            left -= weights[slot]
        key = tuple(sorted(sequence))
        law[key] = law.get(key, 0.0) + probability
    return law


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_subset_is_a_draw_without_replacement(count: int) -> None:
    weights = [4.0, 2.0, 1.0, 0.5]
    score, slots = torch.tensor(weights, dtype=torch.float64).log(), torch.arange(4)
    sets = [tuple(Draws(2).subset(score, slots, number, count).nonzero().flatten().tolist()) for number in range(1200)]
    assert all(len(chosen) == count for chosen in sets)
    statistic, bound = oracles.chi_square(sets, without_replacement(weights, count))
    assert statistic < bound


@settings(max_examples=30)
@given(count=st.integers(0, 7), seed=st.integers(0, 99))
def test_a_subset_has_its_size_and_takes_the_possible_first(count: int, seed: int) -> None:
    score = torch.tensor([-torch.inf, 0.0, -torch.inf, -3.0, 2.0])
    chosen = Draws(seed).subset(score, torch.arange(5), 0, count)
    assert int(chosen.sum()) == min(count, 5)
    if count <= 3:
        assert not bool(chosen[[0, 2]].any())


def test_a_sharp_score_is_the_greedy_choice() -> None:
    score = torch.tensor([0.1, 0.9, 0.5]) / 1e-3
    assert Draws(0).subset(score, torch.arange(3), 0, 2).tolist() == [False, True, True]


@pytest.mark.parametrize("cached", [1, 23, 40])
def test_slices_of_rows_draw_what_all_rows_draw(cached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    logits, slots = torch.randn(7, 11, generator=torch.Generator().manual_seed(0)), torch.arange(7)
    whole = Draws(3).tokens(logits, slots, 1)
    monkeypatch.setattr("anyorder.draws.CACHED", cached)
    assert torch.equal(Draws(3).tokens(logits, slots, 1), whole)
    assert Draws(3).tokens(logits[:0], slots[:0], 1).shape == (0,)
