"""Figures and intervals against closed forms."""

from __future__ import annotations

import math

import pytest

from anyorder.reporting.statistics import exponential, median, pooled, proportion, sign_flip


def test_a_pooled_figure_is_the_ratio_of_sums_not_the_mean_of_ratios() -> None:
    estimate = pooled([(1.0, 1), (9.0, 3)])
    assert estimate is not None
    assert (estimate.value, estimate.documents, estimate.tokens) == (2.5, 2, 4)


def test_documents_that_agree_leave_no_doubt() -> None:
    estimate = pooled([(2.0 * n, n) for n in range(1, 30)])
    assert estimate is not None
    assert (estimate.low, estimate.value, estimate.high) == pytest.approx((2, 2, 2))


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_the_interval_of_a_share_is_the_normal_one(share: float) -> None:
    """±1.96 σ / √n, within the noise of 2,000 resamples."""
    count = 1000
    hits = round(share * count)
    estimate = pooled([(1.0, 1)] * hits + [(0.0, 1)] * (count - hits))
    assert estimate is not None
    half = 1.96 * math.sqrt(share * (1 - share) / count)
    assert estimate.value == pytest.approx(share)
    assert share - estimate.low == pytest.approx(half, rel=0.12)
    assert estimate.high - share == pytest.approx(half, rel=0.12)


def test_the_interval_draws_documents_not_tokens() -> None:
    """A document of a thousand tokens is one observation."""
    few = pooled([(0.0, 1000), (1000.0, 1000)])
    assert few is not None
    assert (few.low, few.high) == (0, 1)


def test_the_interval_of_a_median_lies_between_order_statistics() -> None:
    """Of 1 .. n the 95 % interval ends about 1.96 √n / 2 ranks from the middle."""
    count = 401
    estimate = median([float(value) for value in range(count)])
    assert estimate is not None
    assert estimate.value == 200
    assert estimate.high - estimate.value == pytest.approx(1.96 * math.sqrt(count) / 2, rel=0.15)
    assert estimate.value - estimate.low == pytest.approx(1.96 * math.sqrt(count) / 2, rel=0.15)


def test_perplexity_is_the_exponential_of_the_figure_and_of_its_interval() -> None:
    nats = pooled([(2.0, 1), (3.0, 1), (5.0, 1)])
    perplexity = exponential(nats)
    assert nats is not None
    assert perplexity is not None
    for name in ("value", "low", "high"):
        assert getattr(perplexity, name) == pytest.approx(math.exp(getattr(nats, name)))
    assert perplexity.documents == 3


def test_nothing_measured_is_nothing() -> None:
    assert pooled([]) is None
    assert pooled([(0.0, 0)]) is None
    assert median([]) is None
    assert exponential(None) is None
    lone = pooled([(3.0, 0), (4.0, 2)])  # a document without tokens says nothing
    assert lone is not None
    assert (lone.value, lone.documents) == (2, 1)


def test_the_same_figures_give_the_same_interval() -> None:
    parts = [(float(n % 7), 3) for n in range(50)]
    assert pooled(parts) == pooled(parts)


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    [(0, 16, 0, 0.1936), (16, 16, 0.8064, 1), (81, 263, 0.2553, 0.3662)],  # the last: R. G. Newcombe, 1998, table I
)
def test_a_share_has_an_interval_even_where_all_are_alike(right: int, count: int, low: float, high: float) -> None:
    found = proportion(right, count)
    assert (found.value, found.documents) == (right / count, count)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_signs_that_fall_alike_are_no_accident() -> None:
    assert sign_flip([]) == sign_flip([0.0, 0.0]) == 1.0
    assert sign_flip([1.0, -1.0] * 10) == 1.0
    assert sign_flip([1.0] * 3) == pytest.approx(0.25, abs=0.03)  # two of eight
    assert sign_flip([1.0] * 20) < 0.001
    assert sign_flip([0.5, 0.25, 1.0, 0.1, 0.3]) == sign_flip([-0.5, -0.25, -1.0, -0.1, -0.3])
