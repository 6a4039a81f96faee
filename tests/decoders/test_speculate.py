"""Drafts change the number of passes and nothing else.

Guards against committing a token that the model would not have taken, and against stale keys and values of rejected
drafts being read by later passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.tiny import VOCABULARY, tiny

import anyorder
from anyorder.canvas import Canvas
from anyorder.decoders.choose import Chooser, Sampling
from anyorder.decoders.speculate import Drafter, LookupDrafter, SpeculativeDecoder
from anyorder.draws import Draws
from anyorder.engine.loop import Engine
from anyorder.engine.sequence import Sequence as RunningSequence
from anyorder.errors import ParameterError
from anyorder.events import Committed, Finished
from anyorder.policies.catalog import POLICIES
from anyorder.runner import Runner

PROMPT = [5, 6, 7, 5, 6]
SAMPLINGS: list[dict[str, Any]] = [{}, {"temperature": 0.8, "seed": 3}, {"temperature": 1.5, "top_p": 0.9, "seed": 9}]


class Scripted:
    """Drafts a fixed continuation, right or wrong."""

    def __init__(self, answer: Sequence[int], start: int) -> None:
        self.answer = list(answer)
        self.start = start

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        at = len(ids) - self.start
        return self.answer[at : at + count]


class Hostile:
    """Drafts nonsense that changes with every call."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        return torch.randint(0, VOCABULARY, (count,), generator=self.generator).tolist()


def run(
    drafter: Drafter, *, new: int = 20, draft_length: int = 3, stop_ids: tuple[int, ...] = (), **sampling: Any
) -> SpeculativeDecoder:
    model = tiny("llama")
    canvas = Canvas.from_prompt(PROMPT, mask_id=-1)
    canvas.grow(new)
    seed = sampling.pop("seed", 0)
    chooser = Chooser(
        policy=POLICIES["sequential"],
        sampling=Sampling(mask_id=None, confidence="filtered", draws=Draws(seed), **sampling),
    )
    decoder = SpeculativeDecoder(canvas, chooser, drafter, draft_length=draft_length, stop_ids=stop_ids)
    runner = Runner(model.network)
    engine = Engine(runner, [RunningSequence(decoder, runner.storage(len(canvas)))])
    events = engine.start()
    while engine.running:
        events += engine.step()
    assert isinstance(events[-1], Finished)
    slots = [slot for event in events if isinstance(event, Committed) for slot in event.slots]
    assert slots == sorted(set(slots))
    return decoder


def plain(new: int = 20, **params: Any) -> list[int]:
    params.setdefault("stop_ids", ())
    return list(anyorder.generate(tiny("llama"), PROMPT, mode="causal", max_new_tokens=new, **params).ids)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@given(seed=st.integers(0, 2**31), draft_length=st.integers(1, 9))
def test_a_hostile_draft_changes_nothing(sampling: dict[str, Any], seed: int, draft_length: int) -> None:
    decoder = run(Hostile(seed), draft_length=draft_length, **sampling)
    assert decoder.canvas.ids[len(PROMPT) :].tolist() == plain(**sampling)
    assert decoder.passes <= 20


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_perfect_draft_commits_one_more_than_it_drafts(sampling: dict[str, Any]) -> None:
    answer = plain(**sampling)
    decoder = run(Scripted(answer, len(PROMPT)), draft_length=3, **sampling)
    assert decoder.canvas.ids[len(PROMPT) :].tolist() == answer
    assert decoder.passes == 5  # 20 tokens, four per pass


def test_a_draft_with_one_wrong_token_is_kept_up_to_it() -> None:
    answer = plain()
    wrong = [*answer[:2], (answer[2] + 1) % VOCABULARY, *answer[3:]]
    decoder = run(Scripted(wrong, len(PROMPT)), draft_length=4)
    assert decoder.canvas.commit_pass[len(PROMPT) :].tolist()[:4] == [0, 0, 0, 1]


def test_nothing_is_decided_behind_a_stop_token() -> None:
    answer = plain()
    stop = answer[5]
    first = answer.index(stop)
    decoder = run(Scripted(answer, len(PROMPT)), draft_length=9, stop_ids=(stop,))
    assert decoder.finished == "stop"
    assert decoder.canvas.is_filled(0, len(PROMPT) + first + 1)
    assert bool(decoder.canvas.open[len(PROMPT) + first + 1 :].all())


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("draft_length", [None, 1, 7])
def test_lookup_through_the_public_function(sampling: dict[str, Any], draft_length: int | None) -> None:
    model = tiny("llama")
    prompts = [PROMPT, [4, 4, 4, 4], [9], [5, 6, 7] * 6]
    wanted = anyorder.generate_batch(model, prompts, mode="causal", max_new_tokens=24, **sampling)
    drafted = anyorder.generate_batch(
        model, prompts, draft="lookup", draft_length=draft_length, max_new_tokens=24, **sampling
    )
    assert [g.ids for g in drafted] == [g.ids for g in wanted]
    assert [g.finish_reason for g in drafted] == [g.finish_reason for g in wanted]
    assert sum(g.stats.passes for g in drafted) < sum(g.stats.passes for g in wanted)
    assert all(g.stats.wasted == 0 for g in drafted)


def test_lookup_copies_what_followed_the_longest_match() -> None:
    drafter = LookupDrafter(longest=3)
    text = [1, 2, 3, 4, 9, 2, 3, 7, 1, 2, 3]
    assert drafter.propose(text, 2) == [4, 9]  # 1 2 3 stood at the beginning; the shorter 2 3 last led to 7
    assert drafter.propose([*text, 4], 3) == [9, 2, 3]
    assert drafter.propose([*text, 4, 42], 3) == []


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"draft": "lookup", "mode": "block"}, "`draft` belongs to mode 'causal', got mode 'block'"),
        ({"draft": "lookup", "cache": "none"}, "use cache 'block'"),
        ({"draft": "lookup", "forced": {0: 4}}, "`forced` and `draft` do not go together yet"),
        ({"draft_length": 4}, "`draft_length` needs a `draft`"),
        ({"draft": "lookup", "draft_length": 0}, "`draft_length` must be a whole number of at least 1"),
        ({"draft": "other"}, "`draft` must be one of none, lookup"),
    ],
)
def test_contradictions_are_refused(params: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        anyorder.generate(tiny("llama"), PROMPT, **params)
