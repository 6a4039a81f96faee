"""Seams of real answers of the small any-order model, and what is refused."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest
import torch
from tests.engine.tiny import tiny

import anyorder
from anyorder.errors import ParameterError
from anyorder.events import Committed
from anyorder.exam import EXAMS
from anyorder.models.loaded import LoadedModel
from anyorder.runner import Runner
from anyorder.seams import SeamReport, measure_seams
from anyorder.tasks import vocabulary
from anyorder.window import Window


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return anyorder.load("tasks")


def logprob(model: LoadedModel, ids: list[int], slot: int, token: int) -> float:
    window = Window(
        ids=torch.tensor(ids),
        start=0,
        visible=len(ids),
        rows=torch.tensor([slot]),
        attention="bidirectional",
        stores=False,
    )
    with torch.inference_mode():
        logits = Runner(model.network).forward([window], [None])[0][0].double()
    logits = logits.index_fill(0, torch.tensor(vocabulary.MASK_ID), -torch.inf)
    return float(logits.log_softmax(-1)[token])


def test_a_pass_by_hand(model: LoadedModel) -> None:
    """Three digits of a sum in one pass: six canvases, asked for one by one."""
    prompt = [*vocabulary.encode("?34+ 7=", 7), anyorder.Hole(3)]
    run = anyorder.stream(model, prompt, max_new_tokens=0, steps=1)
    answer = run.generations()[0]
    report = measure_seams(model, run.events, max_new_tokens=0, steps=1)
    given, filled = list(answer.prompt_ids[:7]), list(answer.prompt_ids[7:])
    masked = [*given, *[vocabulary.MASK_ID] * 3]
    alone = [logprob(model, masked, 7 + i, filled[i]) for i in range(3)]
    (found,) = report.passes
    assert found.slots == (7, 8, 9)
    assert found.product == pytest.approx(sum(alone), abs=1e-4)
    order = sorted(range(3), key=lambda i: (-answer.trace[i].confidence, i))
    chain, canvas = 0.0, list(masked)
    for i in order:
        chain += logprob(model, canvas, 7 + i, filled[i])
        canvas[7 + i] = filled[i]
    assert found.chain == pytest.approx(chain, abs=1e-4)
    assert report.forwards == 5
    for pair in found.pairs:
        a, b = (slot - 7 for slot in pair.slots)
        knows_a, knows_b = list(masked), list(masked)
        knows_a[7 + a], knows_b[7 + b] = filled[a], filled[b]
        gains = (
            logprob(model, knows_a, 7 + b, filled[b]) - alone[b],
            logprob(model, knows_b, 7 + a, filled[a]) - alone[a],
        )
        assert pair.gain == pytest.approx(sum(gains) / 2, abs=1e-4)


def auroc(scores: list[float], wrong: list[bool]) -> float:
    """Chance that a wrong answer scores higher than a right one."""
    ups, downs = ([s for s, w in zip(scores, wrong, strict=True) if w is side] for side in (True, False))
    return sum((a > b) + (a == b) / 2 for a in ups for b in downs) / (len(ups) * len(downs))


@pytest.mark.parametrize(("name", "steps"), [("sudoku/any", 8), ("cities/name", 1)])
def test_seams_predict_errors(model: LoadedModel, name: str, steps: int) -> None:
    exam, scores, wrong = EXAMS[name], list[float](), list[bool]()
    params = anyorder.DecodeParams(max_new_tokens=0, steps=steps, temperature=1.0 if exam.several else 0.0)
    for number, prompt in enumerate(exam.problems(40)):
        run = anyorder.stream(model, prompt, params.replace(seed=number))
        wrong.append(not exam.task.is_right(vocabulary.decode(run.generations()[0].prompt_ids)))
        scores.append(-measure_seams(model, run.events, params).gap)
    assert 5 < sum(wrong) < 35
    assert auroc(scores, wrong) > 0.9


def test_a_token_a_pass_has_no_seams(model: LoadedModel) -> None:
    prompt = [*vocabulary.encode("?34+ 7=", 7), anyorder.Hole(3)]
    run = anyorder.stream(model, prompt, max_new_tokens=0, steps=3)
    run.generations()
    assert measure_seams(model, run.events, max_new_tokens=0, steps=3) == SeamReport(passes=(), forwards=0)


def test_the_causal_mode_has_none_though_it_commits_several_drafts() -> None:
    model = anyorder.load("smollm2")
    prompt = "One, two, three, one, two, three, one, two,"
    run = anyorder.stream(model, prompt, max_new_tokens=8, draft="lookup")
    assert run.generations()[0].stats.passes < 8
    assert not measure_seams(model, run.events, max_new_tokens=8, draft="lookup").passes


@pytest.mark.parametrize("growth", ["fixed", "block"])
def test_a_replay_meets_every_pass(model: LoadedModel, growth: Literal["fixed", "block"]) -> None:
    """Blocks that open one by one; behind a stop token nothing counts."""
    params = anyorder.DecodeParams(max_new_tokens=8, block_length=4, threshold=0.0, growth=growth)
    run = anyorder.stream(model, "?34+ 7=", params)
    answer = run.generations()[0]
    report = measure_seams(model, run.events, params)
    end = 7 + len(answer.ids) + (answer.finish_reason == "stop")
    together: dict[int, list[int]] = {}
    for slot in answer.trace:
        if slot.slot < end:
            together.setdefault(slot.commit_pass, []).append(slot.slot)
    assert {p.pass_index: list(p.slots) for p in report.passes} == {p: s for p, s in together.items() if len(s) > 1}
    assert report.passes


def test_block_decoding_behind_a_causal_prefix() -> None:
    """The default model's denoiser: rows are shifted, the block is read with the adapter; gaps are finite."""
    model = anyorder.load("smollm2")
    params = anyorder.DecodeParams(mode="block", threshold=0.3, max_new_tokens=16)
    run = anyorder.stream(model, "The capital of France is", params)
    run.generations()
    report = measure_seams(model, run.events, params)
    assert report.passes
    committed = {event.pass_index: event for event in run.events if isinstance(event, Committed)}
    for found in report.passes:
        assert math.isfinite(found.gap)
        drawn = committed[found.pass_index]
        if len(drawn.slots) == len(found.slots):  # the report recomputes what the pass saw
            assert found.product == pytest.approx(sum(map(math.log, drawn.confidence)), abs=2e-2)


def test_wrong_events_are_refused(model: LoadedModel) -> None:
    run = anyorder.stream(model, "?34+ 7=", max_new_tokens=3)
    with pytest.raises(ParameterError, match="all events of one finished request"):
        measure_seams(model, [next(run)], max_new_tokens=3)
    run.generations()
    with pytest.raises(ParameterError, match="not those of a request with these parameters"):
        measure_seams(model, [run.events[0], Committed(0, 1, (2,), (5,), (0.5,)), *run.events[1:]], max_new_tokens=3)
    with pytest.raises(ParameterError, match=r"`cfg_scale` is 1\.0, make it 0"):
        measure_seams(model, run.events, max_new_tokens=3, cfg_scale=1.0)


BLOCKS: dict[str, tuple[str, dict[str, Any]]] = {
    "edited": ("llada2_moe", {"threshold": 0.06, "edit_threshold": 0.95}),
    "earlier blocks edited": ("llada2_moe", {"threshold": 0.06, "edit_threshold": 0.95, "edit_blocks": 1}),
    "sliding window": ("wedlm", {"entropy_threshold": 2.8}),
    "a narrow sliding window": ("wedlm", {"entropy_threshold": 2.8, "block_length": 3}),
}


@pytest.mark.parametrize(("family", "params"), BLOCKS.values(), ids=BLOCKS.keys())
def test_a_pass_is_read_again_as_it_was(family: str, params: dict[str, Any]) -> None:
    """What its tokens had alone is the confidence that they were committed with. Guards against candidates that do not
    stand in the order of their slots: a decoder that edits has those of committed slots behind them."""
    model, measured = tiny(family), 0
    for seed in range(5):
        prompt = [5 + seed, 6, 7]
        run = anyorder.stream(model, prompt, max_new_tokens=20, stop_ids=(), **params)
        run.generations()
        commits = {event.pass_index: event for event in run.events if isinstance(event, Committed)}
        for gap in measure_seams(model, run.events, max_new_tokens=20, stop_ids=(), **params).passes:
            event = commits[gap.pass_index]
            own = dict(zip(event.slots, event.confidence, strict=True))
            assert gap.product == pytest.approx(sum(math.log(own[slot]) for slot in gap.slots), abs=1e-5)
            measured += 1
    assert measured
