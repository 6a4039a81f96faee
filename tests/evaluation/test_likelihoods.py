"""What a harness is told, against scores of the same tokens and against exact joints."""

from __future__ import annotations

import pytest

import anyorder
from anyorder.errors import ParameterError
from anyorder.evaluation.likelihoods import Likelihoods
from anyorder.models.loaded import LoadedModel


@pytest.fixture(scope="module")
def smollm2() -> LoadedModel:
    return anyorder.load("smollm2")


@pytest.fixture(scope="module")
def tasks() -> LoadedModel:
    return anyorder.load("tasks")


def test_continuations_are_cut_as_the_tokenizer_cuts_the_whole(smollm2: LoadedModel) -> None:
    likelihoods = Likelihoods(model=smollm2)
    encode = likelihoods.tokenizer.encode_text
    context, continuation = likelihoods.split("The capital of France is ", "Paris")
    assert context + continuation == encode("The capital of France is Paris", bos=True)
    assert likelihoods.tokenizer.decode(continuation) == " Paris"
    empty, whole = likelihoods.split("", "Paris")
    assert empty == [likelihoods.prefix]
    assert whole == encode("Paris")
    before, behind = likelihoods.split("def f(x):\n  ", "return x")
    assert before + behind == encode("def f(x):\n  return x", bos=True)


def test_a_causal_score_is_a_chain_rule(smollm2: LoadedModel) -> None:
    likelihoods = Likelihoods(model=smollm2)
    context, continuation = likelihoods.split("The capital of France is", " Paris")
    total, greedy = likelihoods.of(context, continuation)
    expected = anyorder.score(smollm2, [*context, *continuation], mode="causal", start=len(context))
    assert total == pytest.approx(expected.total)
    assert greedy
    other, is_greedy = likelihoods.of(*likelihoods.split("The capital of France is", " Rome"))
    assert other < total
    assert not is_greedy


def test_long_texts_lose_their_beginning_and_no_token_is_scored_twice(tasks: LoadedModel) -> None:
    likelihoods = Likelihoods(model=tasks, mode="pseudo_likelihood")
    ids = likelihoods.tokenizer.encode_text("?34+ 7= 41" * 20)
    pieces = list(likelihoods._pieces(ids))  # pyright: ignore[reportPrivateUsage]
    assert [token for _, scored in pieces for token in scored] == ids
    assert all(len(before) + len(scored) <= tasks.config.max_context for before, scored in pieces)
    assert pieces[0][0] == [likelihoods.prefix]
    assert len(pieces[-1][0]) + len(pieces[-1][1]) == tasks.config.max_context
    assert likelihoods.rolling("?34+ 7= 41" * 20) < 0
    with pytest.raises(ParameterError, match="leaves no room"):
        likelihoods.of([1], [2] * tasks.config.max_context)


def test_monte_carlo_is_the_default_of_a_masked_model_and_asks_it_to_write(tasks: LoadedModel) -> None:
    likelihoods = Likelihoods(model=tasks, samples=64)
    right, greedy = likelihoods.of(*likelihoods.split("?34+ 7=", " 41"))
    wrong, not_greedy = likelihoods.of(*likelihoods.split("?34+ 7=", " 57"))
    assert right > wrong + 2
    assert greedy
    assert not not_greedy
    exact = anyorder.score(tasks, "?34+ 7= 41", mode="left_to_right", start=7).total
    assert right == pytest.approx(exact, abs=0.2)
