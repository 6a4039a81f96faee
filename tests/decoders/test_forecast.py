"""Masks in the pass that verifies: they say what the denoiser says, and change nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoders.test_speculate import PROMPT, SAMPLINGS, Hostile, answer_of, decoder_of, finish, plain
from tests.engine.test_adapter import adapted
from tests.engine.tiny import MASK, VOCABULARY, tiny

import anyorder
from anyorder.canvas import Hole
from anyorder.decoders.draft import DraftTree
from anyorder.decoders.drafters import Drafter, TreeDrafter
from anyorder.decoders.forecast import Blend, Forecast, Masks, likely_ends
from anyorder.decoders.speculate import SpeculativeDecoder
from anyorder.errors import ParameterError
from anyorder.models.attention import attend_alone
from anyorder.ngrams import Guesser
from anyorder.ngrams.weights import PRIOR
from anyorder.runner import Runner

COLUMNS = 80


class Listening:
    """Hands the drafts of another on, and keeps what the denoiser said."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.heard: list[tuple[list[int], tuple[Forecast, ...]]] = []

    def draft(self, ids: Sequence[int], depth: int, forecasts: Sequence[Forecast] = ()) -> DraftTree:
        self.heard.append((list(ids), tuple(forecasts)))
        return self.drafter.draft(ids, depth, forecasts)


def decoded(drafter: Drafter, *, groups: int, **sampling: Any) -> SpeculativeDecoder:
    model = adapted()
    decoder = decoder_of(drafter, groups=groups, **sampling)
    runner = Runner(model.network, model.adapter)
    finish([decoder], [runner.storage(COLUMNS)], runner)
    return decoder


@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), groups=st.integers(1, 6), sampling=st.sampled_from(SAMPLINGS))
def test_the_text_does_not_depend_on_masks(seed: int, groups: int, sampling: dict[str, Any]) -> None:
    answer = plain(**sampling)
    hostile = Hostile(seed, 6, answer, len(PROMPT))
    assert answer_of(decoded(hostile, groups=groups, **sampling)) == answer


@settings(max_examples=10)
@given(seed=st.integers(0, 2**31))
def test_the_denoiser_speaks_as_in_training(seed: int) -> None:
    """Behind clean text that the base has read, the masks' rows are those of one dense forward."""
    listening = Listening(Hostile(seed, 6, plain(), len(PROMPT)))
    decoded(listening, groups=20)  # more than there are nodes
    model = adapted()
    assert model.adapter is not None
    spoken = [(ids, forecasts) for ids, forecasts in listening.heard if forecasts]
    assert spoken
    for ids, forecasts in spoken:
        clean = ids[:-1]  # the last token was the model's own answer, which no mask has seen
        fed = torch.tensor([*clean, MASK, MASK])
        columns = torch.arange(len(fed))
        noisy = columns >= len(clean)
        attend = attend_alone((columns[None] <= columns[:, None]) | noisy[:, None])
        logits = model.network.head(model.network(fed, columns, attend, None, model.adapter.on(noisy)))[len(clean) :]
        logits[:, MASK] = -torch.inf
        for row, forecast in zip(logits.softmax(-1), forecasts, strict=True):
            best = row.topk(len(forecast))
            assert list(forecast) == best.indices.tolist()
            assert list(forecast.values()) == pytest.approx(best.values.tolist(), rel=1e-5)


def test_there_is_no_forecast_behind_a_place_without_masks() -> None:
    listening = Listening(Hostile(1, 6, plain(), len(PROMPT)))
    decoded(listening, groups=1)
    heard = [bool(forecasts) for _, forecasts in listening.heard[1:]]
    assert True in heard
    assert False in heard


def test_drafts_follow_the_forecasts() -> None:
    """A denoiser that is always right halves the passes of a text that does not repeat itself."""
    answer = plain()

    class Knowing(Listening):
        def draft(self, ids: Sequence[int], depth: int, forecasts: Sequence[Forecast] = ()) -> DraftTree:
            ahead = answer[len(ids) - len(PROMPT) :][:2]
            return super().draft(ids, depth, tuple({token: 0.99} for token in ahead) if forecasts else ())

    def passes(drafter: Drafter) -> int:
        decoder = decoded(drafter, groups=1)
        assert answer_of(decoder) == answer
        return decoder.passes

    tree = [TreeDrafter(Guesser(None, PRIOR), 4) for _ in range(2)]
    assert passes(Knowing(tree[0])) < passes(Listening(tree[1]))


def test_masks_see_their_anchor_and_its_past() -> None:
    tree = DraftTree((5, 6, 7), (-1, 0, -1))
    branches = Masks((1, -1), 2).extend(tree, tree.lineage(), text_end=9)
    assert branches.positions.tolist() == [10, 11, 10, 12, 13, 10, 11]
    assert branches.sees.int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, 0],
        [1, 1, 0, 1, 1, 0, 0],
        [1, 1, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 1],
        [0, 0, 0, 0, 0, 1, 1],
    ]


def test_masks_stand_where_acceptance_most_likely_ends() -> None:
    tree = DraftTree((5, 6, 7), (-1, 0, -1), (0.6, 0.5, 0.3))
    assert likely_ends(tree, 2) == (1, 2)  # 0.5 and 0.3; the text 0.1, node 0 another 0.1
    assert set(likely_ends(tree, 9)) == {-1, 0, 1, 2}
    assert likely_ends(DraftTree(), 3) == (-1,)
    assert likely_ends(tree, 0) == ()


@given(
    known=st.dictionaries(st.integers(0, VOCABULARY), st.floats(0.01, 0.1), max_size=6),
    ahead=st.dictionaries(st.integers(0, VOCABULARY), st.floats(0.01, 0.1), min_size=1, max_size=6),
    floor=st.floats(0.001, 0.3),
)
def test_a_blend_is_a_ranking_of_all_that_either_knows(
    known: dict[int, float], ahead: dict[int, float], floor: float
) -> None:
    blend = Blend()

    def guesses(context: Sequence[int], least: float, depth: int) -> list[tuple[float, int]]:
        return [(chance, token) for token, chance in known.items() if chance >= least]

    both = blend.blended(guesses, [ahead])
    everything, found = both([1], 0.0, 1), both([1], floor, 1)
    assert {token for _, token in everything} == known.keys() | ahead.keys()
    assert sum(chance for chance, _ in everything) == pytest.approx(blend.mass)
    assert found == [pair for pair in everything if pair[0] >= floor]
    assert found == sorted(found, reverse=True)
    assert both([1], floor, 2) == guesses([1], floor, 2)  # nothing is known of the next place


def test_a_blend_prefers_what_both_expect() -> None:
    both = Blend().blended(lambda context, floor, depth: [(0.4, 1), (0.3, 2)], [{2: 0.4, 3: 0.3}])
    assert next(token for _, token in both([0], 0.0, 1)) == 2


def test_a_request_asks_for_it_by_name() -> None:
    params: dict[str, Any] = {"mode": "causal", "max_new_tokens": 20, "stop_ids": ()}
    prompt: list[int | Hole] = [*PROMPT]
    answers = [anyorder.generate(adapted(), prompt, draft=draft, **params) for draft in ("none", "denoiser")]
    assert answers[0].ids == answers[1].ids
    assert answers[1].stats.passes < answers[0].stats.passes
    with pytest.raises(ParameterError, match="draft 'denoiser' needs a model with an adapter, tiny llama has none"):
        anyorder.generate(tiny("llama"), prompt, draft="denoiser", **params)
