"""Confidence, margin and entropy against their definitions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyorder.policies import score

rows = st.lists(st.floats(-30, 30), min_size=2, max_size=6)


def softmax(row: list[float]) -> list[float]:
    weights = [math.exp(x - max(row)) for x in row]
    return [w / sum(weights) for w in weights]


@given(row=rows)
def test_scores_equal_their_definitions(row: list[float]) -> None:
    p, logits = softmax(row), torch.tensor([row], dtype=torch.float64)
    best, second = sorted(p, reverse=True)[:2]
    for token, expected in enumerate(p):
        assert float(score.probability(logits, torch.tensor([token]))) == pytest.approx(expected, abs=1e-12)
    assert float(score.margin(logits)) == pytest.approx(best - second, abs=1e-12)
    assert float(score.entropy(logits)) == pytest.approx(-sum(x * math.log(x) for x in p if x), abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_half_precision_is_scored_in_float32(dtype: torch.dtype) -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0]], dtype=dtype)
    wanted = torch.float64 if dtype == torch.float64 else torch.float32
    for value in (score.entropy(logits), score.margin(logits), score.probability(logits, torch.tensor([2]))):
        assert value.dtype == wanted
        assert value.shape == (1,)


def test_impossible_tokens_count_nothing() -> None:
    logits = torch.tensor([[0.0, -torch.inf, 0.0], [-torch.inf, 3.0, -torch.inf]])
    assert score.entropy(logits).tolist() == pytest.approx([math.log(2), 0.0])
    assert score.margin(logits).tolist() == pytest.approx([0.0, 1.0])
    assert score.probability(logits, torch.tensor([1, 1])).tolist() == [0.0, 1.0]


@given(table=st.lists(st.lists(st.floats(-9, 9), min_size=3, max_size=3), min_size=1, max_size=5), data=st.data())
def test_distance_counts_from_the_first_candidate(table: list[list[float]], data: st.DataObject) -> None:
    slots = sorted(data.draw(st.sets(st.integers(0, 40), min_size=len(table), max_size=len(table))))
    penalty, logits = data.draw(st.sampled_from([0.0, 0.02, 1.0])), torch.tensor(table, dtype=torch.float64)
    found = score.distant_entropy(logits, torch.tensor(slots), penalty).tolist()
    plain = score.entropy(logits).tolist()
    assert found == pytest.approx([h + penalty * (slot - slots[0]) for h, slot in zip(plain, slots, strict=True)])


@pytest.mark.parametrize("cached", [1, 23, 40])
def test_slices_of_rows_have_the_entropy_of_all_rows(cached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(7, 11, generator=torch.Generator().manual_seed(0))
    whole = score.entropy(logits)
    monkeypatch.setattr("anyorder.draws.CACHED", cached)
    assert torch.equal(score.entropy(logits), whole)
    torch.testing.assert_close(score.entropy(logits, logits.softmax(-1)), whole)
    assert score.entropy(logits[:0]).shape == (0,)
