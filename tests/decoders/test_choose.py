"""From rows of logits to ids, confidence and the commit mask."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anyorder.decoders.choose import Chooser, Sampling
from anyorder.draws import Draws
from anyorder.policies.catalog import POLICIES
from anyorder.policies.published import Knobs

MASK = 4
P = torch.tensor([[0.4, 0.3, 0.2, 0.05, 0.05], [0.1, 0.1, 0.1, 0.6, 0.1]], dtype=torch.float64)
SLOTS = torch.tensor([3, 8])


def chooser(policy: str = "threshold", *, knobs: dict[str, Any] | None = None, **kwargs: Any) -> Chooser:
    alg_temp = kwargs.pop("alg_temp", None)
    sampling: dict[str, Any] = {"mask_id": MASK}
    return Chooser(
        policy=POLICIES[policy],
        sampling=Sampling(**sampling | kwargs),
        knobs=Knobs(**(knobs or {})),
        alg_temp=alg_temp,
    )


def choose(made: Chooser, p: Tensor = P, **kwargs: Any) -> tuple[list[int], list[float], list[bool]]:
    ids, confidence, commit = made.choose(p.log(), SLOTS[: len(p)], pass_index=0, **kwargs)
    return ids.long().tolist(), confidence.tolist(), commit.bool().tolist()


def test_the_mask_is_removed_before_the_softmax() -> None:
    ids, confidence, _ = choose(chooser())
    assert ids == [0, 3]
    assert confidence == pytest.approx([0.4 / 0.95, 0.6 / 0.9])


def test_a_model_without_a_mask_token_may_produce_any() -> None:
    ids, confidence, _ = choose(chooser(mask_id=None))
    assert ids == [0, 3]
    assert confidence == pytest.approx([0.4, 0.6])


def test_the_surest_proposal_is_committed() -> None:
    assert choose(chooser(knobs={"threshold": 1.0}))[2] == [False, True]
    assert choose(chooser(knobs={"threshold": 0.4}))[2] == [True, True]
    assert choose(chooser(knobs={"threshold": 1.0}), all=True)[2] == [True, True]


@pytest.mark.parametrize(
    ("confidence", "expected"),
    [("raw", [0.4 / 0.95, 0.6 / 0.9]), ("filtered", [0.4 / 0.7, 1.0])],
)
def test_confidence_is_that_of_the_family(confidence: str, expected: list[float]) -> None:
    """`filtered`: top-p 0.5 leaves tokens 0 and 1 of the first row, token 3 of the second."""
    assert choose(chooser(confidence=confidence, top_p=0.5))[1] == pytest.approx(expected)


def test_a_sampled_token_carries_its_own_probability() -> None:
    made = chooser(temperature=2.0, confidence="filtered", draws=Draws(1))
    for number in range(20):
        ids, confidence, _ = made.choose(P.log(), SLOTS, pass_index=number)
        heated = (P[:, :MASK].log() / 2).softmax(-1)
        expected = heated.gather(1, ids.long()[:, None]).squeeze(1)
        assert confidence.tolist() == pytest.approx(expected.tolist())


def test_biases_and_bans() -> None:
    assert choose(chooser(logit_bias={2: 3.0}))[0] == [2, 2]
    assert choose(chooser(banned_ids=(0, 3)))[0] == [1, 1]
    assert choose(chooser(logit_bias={MASK: 100.0}))[0] == [0, 3]


def test_delayed_tokens_have_no_confidence_and_the_others_share_theirs() -> None:
    """LLaDA's `confidence_eos_eot_inf`: the token is still proposed, but committed last."""
    ids, confidence, commit = choose(chooser(late_ids=(3,), knobs={"threshold": 0.9}))
    assert ids == [0, 3]
    assert confidence == pytest.approx([0.4 / 0.9, 0.0])
    assert commit == [True, False]


def test_a_delayed_token_that_the_filters_leave_alone_is_no_nan() -> None:
    _, confidence, commit = choose(chooser(late_ids=(0, 3), confidence="filtered", top_k=1))
    assert confidence == [0.0, 0.0]
    assert commit == [True, False]


@pytest.mark.parametrize(
    ("policy", "commit"),
    [("low_confidence", [False, True]), ("topk_margin", [False, True]), ("entropy", [True, False]),
     ("sequential", [True, False])],
)  # fmt: skip
def test_each_policy_ranks_by_its_score(policy: str, commit: list[bool]) -> None:
    """The first row has the smaller entropy (two tokens), the second the more probable token."""
    p = torch.tensor([[0.5, 0.5, 0, 0, 0], [0.7, 0.1, 0.1, 0.1, 0.0]], dtype=torch.float64)
    assert choose(chooser(policy), p, quota=1)[2] == commit


@settings(max_examples=40)
@given(seed=st.integers(0, 1000), count=st.integers(0, 4))
def test_alg_temp_draws_the_slots(seed: int, count: int) -> None:
    logits = torch.randn(6, 5, generator=torch.Generator().manual_seed(seed))
    decision = chooser("entropy", alg_temp=0.5, draws=Draws(seed)).choose(
        logits, torch.arange(6), pass_index=0, quota=count
    )
    assert int(decision[2].sum()) == count


def test_alg_temp_prefers_what_the_policy_prefers() -> None:
    chosen = [0, 0]
    for seed in range(200):
        flags = choose(chooser("maskgit_plus", alg_temp=0.5, draws=Draws(seed)), quota=1)[2]
        chosen = [count + flag for count, flag in zip(chosen, flags, strict=True)]
    weights = [math.exp(c / 0.5) for c in (0.4 / 0.95, 0.6 / 0.9)]
    expected = 200 * weights[1] / sum(weights)
    assert abs(chosen[1] - expected) < 4 * math.sqrt(expected * (1 - expected / 200))


def test_no_candidates_no_decision() -> None:
    decision = chooser().choose(torch.empty(0, 5), torch.empty(0, dtype=torch.int64), pass_index=0)
    assert decision.shape == (3, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ids_survive_the_decision_tensor(dtype: torch.dtype) -> None:
    """Ids and confidences share one tensor: ids of a large vocabulary must be exact in it."""
    logits = torch.zeros(1, 300_000, dtype=dtype)
    logits[0, 299_999] = 9.0
    decision = chooser(mask_id=0).choose(logits, torch.tensor([0]), pass_index=0)
    assert int(decision[0, 0]) == 299_999
