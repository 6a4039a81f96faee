"""Temperature, top-k and top-p in the orders that the families publish."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anyorder.policies.sample import GROUP, best, filter_logits

LOGITS = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64).log()


def kept(logits: Tensor) -> list[int]:
    return [token for token, logit in enumerate(logits[0].tolist()) if logit > -math.inf]


def loop_top_p(p: list[float], limit: float) -> list[int]:
    """Tokens in falling order until their probability exceeds the limit, the one that crosses it included."""
    taken, total = [], 0.0
    for token in sorted(range(len(p)), key=lambda i: (-p[i], i)):
        if taken and total > limit:
            break
        taken.append(token)
        total += p[token]
    return sorted(taken)


@settings(max_examples=60)
@given(weights=st.lists(st.integers(1, 50), min_size=2, max_size=8), limit=st.sampled_from([0.11, 0.37, 0.73, 0.97]))
def test_top_p_equals_its_loop(weights: list[int], limit: float) -> None:
    p = [w / sum(weights) for w in weights]
    logits = torch.tensor([p], dtype=torch.float64).log()
    assert kept(filter_logits(logits, temperature=1.0, top_p=limit)) == loop_top_p(p, limit)


@pytest.mark.parametrize(
    ("params", "tokens"),
    [
        ({"top_k": 1}, [0]),
        ({"top_k": 3}, [0, 1, 2]),
        ({"top_k": 9}, [0, 1, 2, 3]),
        ({"top_p": 0.4}, [0]),
        ({"top_p": 0.6}, [0, 1]),
        ({"top_p": 1.0}, [0, 1, 2, 3]),
        ({"top_p": 1e-9}, [0]),
        # of the first two alone the best has 0.5 / 0.8 = 0.625, so top-k first keeps less
        ({"top_k": 2, "top_p": 0.6, "order": "top_k_first"}, [0]),
        ({"top_k": 2, "top_p": 0.6, "order": "top_p_first"}, [0, 1]),
        ({"top_p": 0.6, "temperature": 0.1}, [0]),
        ({"top_p": 0.6, "temperature": 10.0}, [0, 1, 2]),
        ({"top_p": 0.6, "temperature": 10.0, "order": "before_temperature"}, [0, 1]),
        ({"top_k": 2, "top_p": 0.6, "temperature": 10.0, "order": "before_temperature"}, [0]),
    ],
)
def test_filters(params: dict[str, Any], tokens: list[int]) -> None:
    assert kept(filter_logits(LOGITS, **cast(Any, params))) == tokens


@settings(max_examples=40)
@given(width=st.sampled_from([5, GROUP, 3 * GROUP, 3 * GROUP + 1]), levels=st.integers(1, 40), seed=st.integers(0, 99))
def test_the_grouped_argmax_is_argmax_and_takes_the_lowest_of_equals(width: int, levels: int, seed: int) -> None:
    logits = torch.randint(levels, (4, width), generator=torch.Generator().manual_seed(seed)).float()
    logits[0, ::2] = -torch.inf
    expected = [row.index(max(row)) for row in logits.tolist()]
    assert best(logits).tolist() == expected


def test_nothing_to_do_returns_the_argument() -> None:
    assert filter_logits(LOGITS) is LOGITS
    assert filter_logits(LOGITS, temperature=1.0) is LOGITS


def test_a_temperature_behind_the_filters_still_scales() -> None:
    found = filter_logits(LOGITS, temperature=0.5, top_k=2, order="before_temperature")
    assert found[0, :2].tolist() == pytest.approx([2 * math.log(0.5), 2 * math.log(0.3)])


def test_the_argument_is_not_changed() -> None:
    before = LOGITS.clone()
    filter_logits(LOGITS, temperature=0.5, top_k=2, top_p=0.9)
    assert torch.equal(before, LOGITS)


@pytest.mark.parametrize("temperature", [1e-3, 1e3])
def test_the_allowed_temperatures_give_numbers(temperature: float) -> None:
    """Guards the range of `temperature`: outside of it float32 logits become inf or nan."""
    logits = torch.tensor([[-40.0, 40.0, -torch.inf, 39.0]], dtype=torch.float32)
    p = filter_logits(logits, temperature=temperature).softmax(-1)
    assert torch.isfinite(p).all()
    assert p[0, 2] == 0


@pytest.mark.parametrize(
    ("top_p", "through", "below"),
    [(0.2, [0], [0]), (0.49, [0], [0]), (0.6, [0, 1], [0]), (0.79, [0, 1], [0]), (0.81, [0, 1, 2], [0, 1])],
)
def test_a_nucleus_ends_behind_the_token_that_crosses_p_or_before_it(
    top_p: float, through: list[int], below: list[int]
) -> None:
    """BD3-LM keeps what sums to at most p, and the best token in any case."""
    assert kept(filter_logits(LOGITS, top_p=top_p, nucleus="through")) == through
    assert kept(filter_logits(LOGITS, top_p=top_p, nucleus="below")) == below
