"""Drafts change the number of passes and nothing else.

Guards against committing a token that the model would not have taken, and against stale keys and values of rejected
drafts being read by later passes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoders.trees import random_tree
from tests.engine.tiny import MASK, VOCABULARY, tiny

import anyorder
from anyorder.cache.storage import KVStorage
from anyorder.canvas import Canvas
from anyorder.decoders.base import Decoder
from anyorder.decoders.choose import Chooser, Sampling
from anyorder.decoders.draft import DraftTree
from anyorder.decoders.drafters import Drafter
from anyorder.decoders.forecast import Forecast
from anyorder.decoders.speculate import SpeculativeDecoder
from anyorder.draws import Draws
from anyorder.engine.loop import Engine
from anyorder.engine.sequence import Sequence as RunningSequence
from anyorder.errors import ParameterError
from anyorder.events import Committed, Finished
from anyorder.policies.catalog import POLICIES
from anyorder.runner import Runner
from anyorder.window import Window

PROMPT = [5, 6, 7, 5, 6]
SAMPLINGS: list[dict[str, Any]] = [{}, {"temperature": 0.8, "seed": 3}, {"temperature": 1.5, "top_p": 0.9, "seed": 9}]


class Scripted:
    """Drafts a fixed continuation, right or wrong."""

    def __init__(self, answer: Sequence[int], start: int, most: int) -> None:
        self.answer = list(answer)
        self.start = start
        self.most = most

    def draft(self, ids: Sequence[int], depth: int, forecasts: Sequence[Forecast] = ()) -> DraftTree:
        at = len(ids) - self.start
        return DraftTree.line(self.answer[at : at + min(self.most, depth)])


class Hostile:
    """Drafts trees of nonsense that change with every call; given the answer, its next tokens stand among them."""

    def __init__(self, seed: int, most: int, answer: Sequence[int] = (), start: int = 0) -> None:
        self.rng = random.Random(seed)
        self.most = most
        self.answer = list(answer)
        self.start = start
        self.lines = 0

    def draft(self, ids: Sequence[int], depth: int, forecasts: Sequence[Forecast] = ()) -> DraftTree:
        if self.rng.random() < 0.2:
            self.lines += 1
            return DraftTree.line([self.rng.randrange(VOCABULARY) for _ in range(min(self.most, depth))])
        tree = random_tree(self.rng, most=self.most, depth=min(depth, 5), vocabulary=VOCABULARY)
        return grafted(tree, self.answer[len(ids) - self.start :][: min(depth, self.rng.randint(0, 6))], self.rng)


def grafted(tree: DraftTree, answer: Sequence[int], rng: random.Random) -> DraftTree:
    """The tree with a path for `answer`, each token put in at a random place behind the one before it."""
    tokens, parents, parent, after = list(tree.tokens), list(tree.parents), -1, 0
    for token in answer:
        place = next((n for n, at in enumerate(zip(parents, tokens, strict=True)) if at == (parent, token)), None)
        if place is None:
            place = rng.randint(after, len(tokens))
            tokens.insert(place, token)
            parents = [p + (p >= place) for p in parents]
            parents.insert(place, parent)
        parent, after = place, place + 1
    return DraftTree(tuple(tokens), tuple(parents))


def decoder_of(
    drafter: Drafter, *, prompt: Sequence[int] = PROMPT, new: int = 20, request: int = 0, **sampling: Any
) -> SpeculativeDecoder:
    canvas = Canvas.from_prompt(prompt, mask_id=MASK, request=request)
    canvas.grow(new)
    stop_ids, seed, stored, groups = (sampling.pop(name, default) for name, default in
                                      (("stop_ids", ()), ("seed", 0), ("stored", 0), ("groups", 0)))  # fmt: skip
    chooser = Chooser(
        policy=POLICIES["sequential"],
        sampling=Sampling(mask_id=None, confidence="filtered", draws=Draws(seed), **sampling),
    )
    return SpeculativeDecoder(canvas, chooser, drafter, stop_ids=stop_ids, stored=stored, mask_groups=groups, masks=2)


def finish(decoders: Sequence[Decoder], storages: Sequence[KVStorage], runner: Runner) -> None:
    """Run all of them together to their ends, and see that every slot is decided once and in order."""
    engine = Engine(runner, [RunningSequence(d, s) for d, s in zip(decoders, storages, strict=True)])
    events = engine.start()
    while engine.running:
        events += engine.step()
    assert sum(isinstance(event, Finished) for event in events) == len(decoders)
    for decoder in decoders:
        commits = [e for e in events if isinstance(e, Committed) and e.request == decoder.canvas.request]
        slots = [slot for event in commits for slot in event.slots]
        assert slots == list(range(decoder.canvas.answer_start, decoder.canvas.answer_start + len(slots)))


def run(drafter: Drafter, *, dtype: torch.dtype = torch.float64, **params: Any) -> SpeculativeDecoder:
    decoder = decoder_of(drafter, **params)
    runner = Runner(tiny("llama", dtype=dtype).network)
    finish([decoder], [runner.storage(decoder.end + 40)], runner)
    return decoder


def answer_of(decoder: SpeculativeDecoder) -> list[int]:
    """As `plain` gives it."""
    ids, start = decoder.canvas.ids.tolist(), decoder.canvas.answer_start
    stop = decoder.stop_slot()
    return ids[start : decoder.end if stop is None else stop]


def plain(new: int = 20, prompt: list[int] = PROMPT, dtype: torch.dtype = torch.float64, **params: Any) -> list[int]:
    params.setdefault("stop_ids", ())
    model = tiny("llama", dtype=dtype)
    return list(anyorder.generate(model, prompt, mode="causal", max_new_tokens=new, **params).ids)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), most=st.integers(1, 24), new=st.integers(1, 24))
def test_a_hostile_draft_changes_nothing(
    sampling: dict[str, Any], dtype: torch.dtype, seed: int, most: int, new: int
) -> None:
    expected = plain(new, dtype=dtype, **sampling)
    decoder = run(Hostile(seed, most), dtype=dtype, new=new, **sampling)
    assert answer_of(decoder) == expected
    assert decoder.passes <= new


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), most=st.integers(0, 24))
def test_the_right_path_among_wrong_ones_is_kept_and_moved(
    sampling: dict[str, Any], dtype: torch.dtype, seed: int, most: int
) -> None:
    """Keys and values of an accepted path lie scattered among those of the others: later passes must read its own."""
    expected = plain(40, dtype=dtype, **sampling)
    decoder = run(Hostile(seed, most, expected, len(PROMPT)), dtype=dtype, new=40, **sampling)
    assert answer_of(decoder) == expected


def test_the_hostile_drafts_are_what_they_should_be() -> None:
    """Paths are accepted out of place, branches are rejected, and lines come among the trees."""
    expected = plain(40)
    drafter = Hostile(0, 12, expected, len(PROMPT))
    moved: list[int] = []
    decoder = decoder_of(drafter, new=40)
    plan = decoder.plan

    def watched() -> list[Window]:
        windows = plan()
        moved.append(0 if windows[0].moved is None else len(windows[0].moved))
        return windows

    decoder.plan = watched
    runner = Runner(tiny("llama").network)
    finish([decoder], [runner.storage(80)], runner)
    assert max(moved) > 1
    assert 0 in moved[1:]
    assert decoder.passes < 25
    assert drafter.lines > 0


@pytest.mark.parametrize("sampling", SAMPLINGS)
@settings(max_examples=30)
@given(seeds=st.lists(st.integers(0, 2**31), min_size=3, max_size=3))
def test_drafts_do_not_disturb_the_neighbours_in_a_batch(sampling: dict[str, Any], seeds: list[int]) -> None:
    prompts = [PROMPT, [9], [4, 4, 4, 4, 8, 1]]
    expected = [plain(16, prompt, **sampling) for prompt in prompts]
    drafters: list[Drafter] = [
        Hostile(seeds[0], 9, expected[0], len(prompts[0])),
        Hostile(seeds[1], 20),
        Scripted(expected[2], len(prompts[2]), 4),
    ]
    decoders = [
        decoder_of(drafter, prompt=prompt, new=16, request=request, **sampling)
        for request, (drafter, prompt) in enumerate(zip(drafters, prompts, strict=True))
    ]
    runner = Runner(tiny("llama").network)
    finish(decoders, [runner.storage(60) for _ in decoders], runner)
    assert [answer_of(decoder) for decoder in decoders] == expected


@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), stop=st.integers(0, VOCABULARY - 1))
def test_a_stop_token_ends_the_answer_in_the_midst_of_a_path(seed: int, stop: int) -> None:
    """Also where the tree goes on behind it: nothing may be decided there."""
    whole = plain(40)
    decoder = run(Hostile(seed, 10, whole, len(PROMPT)), new=40, stop_ids=(stop,))
    expected = whole[: whole.index(stop)] if stop in whole else whole
    assert answer_of(decoder) == expected
    assert decoder.finished == ("stop" if stop in whole else "length")
    decided = len(expected) + (stop in whole)
    assert bool(decoder.canvas.open[len(PROMPT) + decided :].all())


@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), most=st.integers(1, 12))
def test_what_is_said_to_be_stored_is_stored(seed: int, most: int) -> None:
    """A chat goes on from the stored columns of its last answer, whose last path nobody has moved."""
    expected = plain(20)
    runner = Runner(tiny("llama").network)
    storage = runner.storage(160)
    first = decoder_of(Hostile(seed, most, expected, len(PROMPT)), new=20)
    finish([first], [storage], runner)
    prompt = first.canvas.ids.tolist()
    assert 0 < first.stored < len(prompt)
    second = decoder_of(Hostile(seed, most), prompt=prompt, new=12, stored=first.stored)
    finish([second], [storage], runner)
    assert answer_of(second) == plain(12, prompt)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_perfect_draft_commits_one_more_than_it_drafts(sampling: dict[str, Any]) -> None:
    answer = plain(**sampling)
    decoder = run(Scripted(answer, len(PROMPT), 3), **sampling)
    assert answer_of(decoder) == answer
    assert decoder.passes == 5  # 20 tokens, four per pass


def test_a_draft_with_one_wrong_token_is_kept_up_to_it() -> None:
    answer = plain()
    wrong = [*answer[:2], (answer[2] + 1) % VOCABULARY, *answer[3:]]
    decoder = run(Scripted(wrong, len(PROMPT), 4))
    assert decoder.canvas.commit_pass[len(PROMPT) :].tolist()[:4] == [0, 0, 0, 1]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("draft_length", [None, 1, 7])
@pytest.mark.parametrize("draft", ["lookup", "ngram"])
def test_drafts_through_the_public_function(sampling: dict[str, Any], draft: str, draft_length: int | None) -> None:
    model = tiny("llama")
    prompts = [PROMPT, [4, 4, 4, 4], [9], [5, 6, 7] * 6]
    wanted = anyorder.generate_batch(model, prompts, mode="causal", max_new_tokens=24, **sampling)
    drafted = anyorder.generate_batch(
        model, prompts, draft=draft, draft_length=draft_length, max_new_tokens=24, **sampling
    )
    assert [g.ids for g in drafted] == [g.ids for g in wanted]
    assert [g.finish_reason for g in drafted] == [g.finish_reason for g in wanted]
    most = sum(g.stats.passes for g in wanted) - (not sampling)  # what is drawn at random may never be guessed
    assert sum(g.stats.passes for g in drafted) <= most
    assert all(g.stats.wasted == 0 for g in drafted)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"draft": "lookup", "mode": "block"}, "`draft` belongs to mode 'causal', got mode 'block'"),
        ({"draft": "lookup", "cache": "none"}, "use cache 'block'"),
        ({"draft": "lookup", "forced": {0: 4}}, "`forced` and `draft` do not go together yet"),
        ({"draft_length": 4}, "`draft_length` needs a `draft`"),
        ({"draft": "lookup", "draft_length": 0}, "`draft_length` must be a whole number of at least 1"),
        ({"draft": "other"}, "`draft` must be one of auto, none, lookup, ngram, denoiser"),
        ({"draft": "ngram", "draft_length": 257}, "`draft_length` must be at most 256 for draft 'ngram', got 257"),
    ],
)
def test_contradictions_are_refused(params: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        anyorder.generate(tiny("llama"), PROMPT, **params)
