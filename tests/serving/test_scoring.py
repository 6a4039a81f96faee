"""Texts to be scored among requests to be answered: the same scores as alone, in turns, within the memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from tests.engine.test_adapter import adapted
from tests.engine.tiny import tiny
from tests.serving.helpers import SMALL, alone, assert_same, serving, work
from tests.serving.steps import Steps, columns, events_of, started

import anyorder
from anyorder import Hole
from anyorder.decoders.scorers import Scorer
from anyorder.errors import Cancelled, ContextError, DeadlineExceeded, ParameterError
from anyorder.events import Event
from anyorder.models.loaded import LoadedModel
from anyorder.scoring import ScoreFold, ScoreParams, Scores, resolve_scoring
from anyorder.serving import ScoreWork, ServiceSettings

TEXT = [5, 6, 7, 9, 8, 5, 11, 12, 4, 10, 6, 7, 8]
LONG = [4 + place % 15 for place in range(60)]
RUNS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("fast_dllm_v2", {"start": 5}),
    ("fast_dllm_v2", {"mode": "pseudo_likelihood"}),
    ("sdar", {"mode": "left_to_right"}),
    ("llada", {"start": 0}),
    ("dream", {"mode": "left_to_right"}),
]
CHUNKS = replace(SMALL, prefill_tokens=16)


def to_score(ids: Sequence[int], *, priority: Any = "normal", **params: Any) -> ScoreWork:
    return ScoreWork(ids=ids, params=ScoreParams(**params), priority=priority)


def folded(model: LoadedModel, asked: ScoreWork, events: Sequence[Event]) -> Scores:
    fold = ScoreFold(lambda _: "", resolve_scoring(asked.params, model)[0])
    for event in events:
        fold.add(event)
    return fold.result()


def assert_scores(found: Scores, expected: Scores) -> None:
    assert found.mode == expected.mode
    assert [token.id for token in found.tokens] == [token.id for token in expected.tokens]
    for own, other in zip(found.tokens, expected.tokens, strict=True):
        assert (own.logprob is None) == (other.logprob is None)
        if own.logprob is not None:
            assert own.logprob == pytest.approx(other.logprob, abs=1e-9)
        assert [best.id for best in own.alternatives] == [best.id for best in other.alternatives]


@pytest.mark.parametrize("settings", [SMALL, CHUNKS], ids=["whole", "chunks"])
@pytest.mark.parametrize(("family", "params"), RUNS)
def test_scores_are_those_of_the_text_alone(family: str, params: dict[str, Any], settings: ServiceSettings) -> None:
    """In the company of answers, which in turn are as ever."""
    model = tiny(family)
    texts = [to_score(ids, top_logprobs=2, **params) for ids in (TEXT, LONG, TEXT[:7])]
    answers = [work([5, 6, 7, 8], temperature=1.0, seed=seed) for seed in range(2)]
    with serving(model, settings) as service:
        tickets = [service.submit(each) for each in (*texts, *answers)]
        events = [list(ticket) for ticket in tickets]
        metrics = service.status().metrics
    for each, own in zip(texts, events[:3], strict=True):
        assert_scores(folded(model, each, own), anyorder.score(model, each.ids, top_logprobs=2, **params))
    for each, own in zip(answers, events[3:], strict=True):
        assert_same(own, alone(model, each), passes=False)
    assert metrics.scored == sum(len(text.ids) - text.params.start for text in texts)
    assert metrics.sequence_passes > metrics.scoring_passes > 0
    assert metrics.tokens_per_forward >= 1


def test_the_adapter_is_off_where_the_causal_mode_scores() -> None:
    """Beside a request whose adapter is on in the same pass."""
    model = adapted()
    steps = Steps(model, CHUNKS)
    text = to_score(TEXT)
    steps.submit(work([5, 6, 7], mode="block"))
    ticket = steps.submit(text)
    steps.run()
    assert_scores(folded(model, text, events_of(ticket)), anyorder.score(model, TEXT))


def test_a_causal_score_is_read_in_chunks_with_the_prompts() -> None:
    """60 tokens in chunks of 16: four passes, and another prompt waits for none of them longer than a prompt would."""
    steps = Steps(tiny("llama"), CHUNKS)
    ticket = steps.submit(to_score(LONG))
    steps.run()
    assert steps.scheduler.metrics.passes == 4
    assert folded(tiny("llama"), to_score(LONG), events_of(ticket)).positions == 59


def test_the_rows_of_a_pass_are_bounded() -> None:
    steps = Steps(tiny("llama"), CHUNKS)
    for _ in range(4):
        steps.submit(to_score(LONG))
    computed = 0
    while steps.scheduler.busy:
        steps.step()
        before, computed = computed, sum(cast(Scorer, job.decoder).positions for job in steps.jobs)
        assert computed - before <= 16
    assert computed == 4 * 59


def test_a_masked_score_takes_as_many_windows_as_fit() -> None:
    """13 tokens in a pass of 40 are three windows; a text longer than a pass goes one window at a time."""
    steps = Steps(tiny("llada"), replace(SMALL, prefill_tokens=40))
    steps.submit(to_score(TEXT, start=0))
    steps.run()
    assert steps.scheduler.metrics.passes == 5
    steps.submit(to_score(LONG, start=57))
    steps.run()
    assert steps.scheduler.metrics.passes == 8


def test_a_masked_score_does_not_keep_prompts_waiting() -> None:
    model = tiny("fast_dllm_v2")
    steps = Steps(model, CHUNKS)
    steps.submit(to_score(LONG, mode="pseudo_likelihood"))
    answer = steps.submit(work(TEXT, mode="causal"))
    steps.step(3)
    assert answer.timing.first_commit_s is not None


def test_a_cancelled_score_takes_part_in_no_further_pass() -> None:
    steps = Steps(tiny("llada"), CHUNKS)
    gone = steps.submit(to_score(LONG))
    steps.step(2)
    gone.cancel()
    steps.step()
    assert gone.closed
    assert steps.jobs[0].decoder.passes == 2
    with pytest.raises(Cancelled):
        events_of(gone)


def test_a_score_has_a_deadline() -> None:
    steps = Steps(tiny("llama"), CHUNKS)
    late = steps.submit(replace(to_score(LONG), deadline_s=2.0))
    steps.step()
    assert steps.used == 60
    steps.now = 2.0
    steps.step()
    with pytest.raises(DeadlineExceeded, match="no answer within"):
        events_of(late)
    assert steps.used == 0


def test_an_urgent_answer_goes_before_scores() -> None:
    model = tiny("llama")
    steps = Steps(model, columns(model, 70))
    scores = [steps.submit(to_score(LONG, priority="batch")) for _ in range(2)]
    urgent = steps.submit(work([5], priority="realtime"))
    steps.step()
    assert started([*scores, urgent]) == [False, False, True]


def test_what_was_scored_need_not_be_read_again() -> None:
    """An echoed prompt is scored first; the answer begins behind it. The scored text itself is always computed."""
    model = tiny("llama")
    steps = Steps(model)
    for _ in range(2):
        steps.submit(to_score(LONG))
        steps.run()
    assert steps.scheduler.metrics.cached_tokens == 0
    answer = steps.submit(work(LONG))
    steps.run()
    assert answer.cached_tokens == 48
    assert_same(events_of(answer), alone(model, work(LONG)), passes=False)


def test_what_stands_before_the_scored_part_is_taken_from_others() -> None:
    model = tiny("llama")
    steps = Steps(model)
    steps.submit(work(LONG))
    steps.run()
    text = to_score([*LONG, 7, 8, 9], start=58)
    ticket = steps.submit(text)
    steps.run()
    assert ticket.cached_tokens == 48
    scores = folded(model, text, events_of(ticket))
    assert scores.positions == 62 - 48
    assert_scores(scores, anyorder.score(model, text.ids, start=58))


def test_a_score_that_can_never_fit_is_refused() -> None:
    model = tiny("llama")
    with pytest.raises(ContextError, match="need 60 columns"):
        Steps(model, columns(model, 50)).submit(to_score(LONG))
    with pytest.raises(ContextError, match="feeds up to 60 tokens; this service computes 30"):
        Steps(tiny("llada"), replace(SMALL, pass_tokens=30)).submit(to_score(LONG))
    with serving(tiny("llama")) as service:
        with pytest.raises(ParameterError, match="has no score 'pseudo_likelihood'"):
            service.submit(to_score(TEXT, mode="pseudo_likelihood"))
        with pytest.raises(ParameterError, match="holes cannot be scored"):
            service.submit(ScoreWork(ids=[5, Hole(2)]))  # type: ignore[list-item]
        assert service.status().running == 0


def test_scores_of_text_of_one_token_end_without_a_pass() -> None:
    steps = Steps(tiny("llama"))
    ticket = steps.submit(to_score([5]))
    steps.run()
    assert folded(tiny("llama"), to_score([5]), events_of(ticket)).logprobs == (None,)
    assert steps.scheduler.metrics.passes == 0


def test_nan_ends_one_score_alone() -> None:
    steps = Steps(tiny("llama"), CHUNKS)
    bad, good = steps.submit(to_score(TEXT)), steps.submit(to_score(TEXT))
    scorer = steps.jobs[0].decoder
    decide = scorer.decide
    scorer.decide = lambda rows: decide([torch.full_like(row, math.nan) for row in rows])  # type: ignore[method-assign]
    steps.run()
    with pytest.raises(anyorder.AnyorderError, match="logits are nan"):
        events_of(bad)
    assert_scores(folded(tiny("llama"), to_score(TEXT), events_of(good)), anyorder.score(tiny("llama"), TEXT))
