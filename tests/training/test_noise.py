from __future__ import annotations

import itertools

import pytest
import torch

from anyorder.errors import ParameterError
from anyorder.training import noise
from anyorder.training.noise import StepDraws


def test_one_ratio_falls_into_each_stratum() -> None:
    draws = StepDraws(seed=1, step=2)
    strata = noise.stratified(draws.uniform("order", 50), draws.uniform("within", 50)).sort().values * 50
    assert strata.floor().tolist() == list(range(50))


def test_every_group_is_as_likely_as_any_other_in_each_stratum() -> None:
    """Over all orders of four numbers. Dealing the strata out by place would keep the first group the least noisy."""
    orders = torch.tensor(list(itertools.permutations((0.1, 0.2, 0.3, 0.4))))
    strata = torch.stack([noise.stratified(order, torch.full((4,), 0.5)) for order in orders])
    for group in strata.T:
        assert group.unique(return_counts=True)[1].tolist() == [6] * 4


def test_ratios_fill_the_interval() -> None:
    uniform = torch.tensor([0.0, 0.5, 1 - 2.0**-53], dtype=torch.float64)
    torch.testing.assert_close(noise.ratios(uniform, 0.3, 0.8), torch.tensor([0.3, 0.55, 0.8], dtype=torch.float64))
    assert noise.ratios(uniform, 1.0, 1.0).tolist() == [1, 1, 1]
    assert noise.ratios(uniform).min() == pytest.approx(1e-3)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.5, 0.4), (0.5, 1.1), (float("nan"), 1.0)])
def test_impossible_intervals_are_refused(low: float, high: float) -> None:
    with pytest.raises(ParameterError, match="0 < low <= high <= 1"):
        noise.ratios(torch.zeros(1), low, high)


def test_tokens_are_chosen_with_the_ratio_of_their_group() -> None:
    index = torch.tensor([[0, 0, 1, 1]])
    t = noise.per_token(torch.tensor([0.25, 1.0]), index)
    uniform = torch.tensor([[0.2, 0.25, 0.999, 0.0]])
    assert noise.noisy(t, uniform, torch.ones(1, 4, dtype=torch.bool)).tolist() == [[True, False, True, True]]
    assert noise.noisy(t, uniform, index == 0).tolist() == [[True, False, False, False]]


def test_as_many_ratios_as_groups() -> None:
    with pytest.raises(ParameterError, match=r"one number for each of 2 groups, got \(3,\)"):
        noise.per_token(torch.zeros(3), torch.tensor([[0, 1]]))


def test_views_of_a_pair_share_no_token_and_leave_none_out() -> None:
    among = torch.tensor([[True, True, False, True]])
    chosen = torch.tensor([[True, False, False, False]])
    other = noise.complement(chosen, among)
    assert not (chosen & other).any()
    assert torch.equal(chosen | other, among)


def test_noise_leaves_all_other_tokens_alone() -> None:
    ids, chosen = torch.tensor([[5, 6, 7]]), torch.tensor([[True, False, True]])
    assert noise.masked(ids, chosen, 99).tolist() == [[99, 6, 99]]
    assert noise.replaced(ids, chosen, torch.tensor([[0.0, 0.5, 0.9999]]), 10).tolist() == [[0, 6, 9]]


def test_a_share_of_the_groups_is_masked_throughout() -> None:
    ratio = noise.with_full(torch.tensor([0.2, 0.3]), torch.tensor([0.24, 0.25]), 0.25)
    assert ratio.tolist() == [1.0, pytest.approx(0.3)]


def test_a_step_can_be_drawn_again() -> None:
    draws = StepDraws(seed=7, step=3)
    assert torch.equal(draws.uniform("mask", 4, 8), StepDraws(7, 3).uniform("mask", 4, 8))
    for other in (StepDraws(8, 3), StepDraws(7, 4)):
        assert not (other.uniform("mask", 32) == draws.uniform("mask", 32)).any()
    purposes = torch.stack([draws.uniform(purpose, 32) for purpose in ("order", "within", "mask", "token", "full")])
    assert purposes.unique().numel() == purposes.numel()


def test_a_process_can_draw_its_part_of_a_batch() -> None:
    whole = StepDraws(seed=7, step=3).uniform("mask", 4, 8)
    assert torch.equal(StepDraws(seed=7, step=3).uniform("mask", 2, 8, start=16), whole[2:])


def test_draws_are_uniform() -> None:
    sample = StepDraws(seed=0, step=0).uniform("mask", 100, 100).flatten()
    counts = torch.histc(sample.float(), 20, 0, 1)
    assert ((counts - 500) ** 2 / 500).sum() < 50  # chi-square with 19 degrees of freedom: once in 10 000
