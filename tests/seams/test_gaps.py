"""The gap of a pass against joints whose every conditional is known."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles import Joint, checksum, cities, independent, markov, scrambled
from torch import Tensor

from anyorder.seams.gaps import gap_of, known_sets
from anyorder.seams.replay import JointCommit
from anyorder.seams.report import PassGap, SeamReport
from anyorder.window import Window

JOINTS = {
    "cities": cities(0.3),
    "checksum": checksum(3, 3),
    "markov": markov([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], 4),
    "scrambled": scrambled(3, 3, seed=4),
}


def asked(joint: Joint, order: list[int], tokens: list[int], context: list[int]) -> Tensor:
    """[2n - 1, n] what a perfect model says of `tokens` in the slots `order`."""
    rows: list[list[float]] = []
    for known in known_sets(len(order)).tolist():
        canvas = list(context)
        for slot, token, is_known in zip(order, tokens, known, strict=True):
            canvas[slot] = token if is_known else canvas[slot]
        marginals = joint.marginals(torch.tensor([canvas]))[0]
        rows.append([math.log(max(float(marginals[s, t]), 1e-300)) for s, t in zip(order, tokens, strict=True)])
    return torch.tensor(rows, dtype=torch.float64)


def gap(joint: Joint, order: list[int], tokens: list[int], context: list[int] | None = None) -> PassGap:
    window = Window(ids=torch.tensor(tokens), start=0, visible=1, rows=torch.tensor([0]), attention="bidirectional")
    commit = JointCommit(pass_index=0, window=window, slots=torch.tensor(order), ids=torch.tensor(tokens))
    return gap_of(commit, asked(joint, order, tokens, context or [joint.mask_id] * joint.length))


@pytest.mark.parametrize("joint", JOINTS.values(), ids=JOINTS)
def test_the_mean_gap_is_the_total_correlation(joint: Joint) -> None:
    slots = list(range(joint.length))
    mean = sum(p * gap(joint, slots, list(canvas)).gap for canvas, p in joint.law().items() if p > 0)
    assert mean == pytest.approx(joint.total_correlation([joint.mask_id] * joint.length, slots), abs=1e-9)


@pytest.mark.parametrize("joint", JOINTS.values(), ids=JOINTS)
def test_the_mean_gain_of_a_pair_is_its_mutual_information(joint: Joint) -> None:
    nothing = [joint.mask_id] * joint.length
    means: dict[tuple[int, int], float] = {}
    for canvas, p in joint.law().items():
        for pair in gap(joint, list(range(joint.length)), list(canvas)).pairs if p > 0 else ():
            means[pair.slots] = means.get(pair.slots, 0.0) + p * pair.gain
    assert len(means) == joint.length * (joint.length - 1) // 2
    for pair, mean in means.items():
        assert mean == pytest.approx(joint.total_correlation(nothing, list(pair)), abs=1e-9)


@given(st.permutations(range(3)), st.integers(0, 26))
def test_the_order_of_the_chain_does_not_matter_to_a_consistent_model(order: list[int], number: int) -> None:
    joint = JOINTS["scrambled"]
    canvas = list(product(range(3), repeat=3))[number]
    whole = joint.law()[canvas]
    found = gap(joint, order, [canvas[slot] for slot in order])
    assert found.chain == pytest.approx(math.log(whole), abs=1e-9)
    assert found.slots == (0, 1, 2)


def test_independent_slots_have_no_seams() -> None:
    found = gap(independent([[0.2, 0.8], [0.5, 0.5]]), [1, 0], [0, 1])
    assert found.gap == pytest.approx(0)
    assert [pair.gain for pair in found.pairs] == pytest.approx([0])


def test_what_is_already_decided_is_not_counted_again() -> None:
    joint = JOINTS["markov"]  # slot 1 is known, so 0 and 2 know nothing of each other
    assert gap(joint, [0, 2], [0, 1], [2, 1, 2, 2]).gap == pytest.approx(0)
    assert gap(joint, [0, 2], [0, 1]).gap != pytest.approx(0)


def test_a_report_names_the_worst_pairs() -> None:
    mixed, agreeing = gap(cities(0.5), [0, 1], [0, 1]), gap(cities(0.5), [0, 1], [1, 1])
    report = SeamReport(passes=(agreeing, mixed), forwards=6)
    assert mixed.gap < -100
    assert agreeing.gap == pytest.approx(math.log(2))
    assert report.worst_gap == mixed.gap
    assert [found for found, _ in report.worst()] == [mixed]
    assert report.as_dict()["passes"][0]["gap"] == agreeing.gap
