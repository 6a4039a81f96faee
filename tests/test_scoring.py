"""Scores of given text: against exact joints, against the decoders, and against the training objectives."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from tests import oracles
from tests.engine.test_adapter import adapted
from tests.engine.tiny import MASK, tiny
from tests.oracles import Joint, OracleRunner

import anyorder
from anyorder import Hole
from anyorder.conversion.likelihood import Document, causal_score
from anyorder.decoders.scorers import MonteCarloScorer
from anyorder.engine.loop import Engine
from anyorder.engine.sequence import Sequence as Running
from anyorder.errors import ContextError, ModelError, ParameterError
from anyorder.events import Scored
from anyorder.models.loaded import LoadedModel
from anyorder.runner import Runner
from anyorder.scoring import ScoreFold, ScoreMode, ScoreParams, Scores, build_scorer, resolve_scoring
from anyorder.window import Window

JOINT = oracles.scrambled(length=6, num_symbols=3, seed=2)
TEXT = [0, 2, 1, 1, 0, 2]
LLADA = Path(__file__).parent / "reference" / "llada"
RECORDED: dict[str, Any] = json.loads((LLADA / "decode.json").read_text("utf-8"))["log_likelihood"][0]
PROSE = [5, 6, 7, 9, 8, 5, 11, 12, 4, 10, 6]


def under(joint: Joint, family: str, ids: Sequence[int], *, tokens: int = 40, **params: Any) -> Scores:
    """Scores of a text by an oracle, with the windows that a model of this family asks for."""
    model = replace(tiny(family), mask_token_id=joint.mask_id)
    wanted, decode = resolve_scoring(ScoreParams(**params), model)
    scorer = build_scorer(wanted, decode, model, ids, tokens=tokens)
    scorer.mask_id = joint.mask_id  # a causal mode has no mask; an oracle has one, and believes in it
    runner = OracleRunner(joint, offset=0, shift=model.spec.shift)
    engine = Engine(cast(Any, runner), [Running(scorer, cast(Any, runner.storage(len(ids) + 8)))])
    fold = ScoreFold(lambda _: "", wanted)
    events = engine.start()
    while engine.running:
        events += engine.step()
    for event in events:
        fold.add(event)
    return fold.result()


def exact(joint: Joint, ids: Sequence[int], slot: int, *, seen: Sequence[int]) -> float:
    """log p(token of the slot | tokens of the slots `seen`)."""
    known = [token if place in seen else joint.mask_id for place, token in enumerate(ids)]
    return math.log(joint.marginals(torch.tensor([known]))[0, slot, ids[slot]])


def told(scores: Scores) -> list[float]:
    """What was scored."""
    return [value for value in scores.logprobs if value is not None]


# ---------------------------------------------------------------- exact joints


@pytest.mark.parametrize("tokens", [1, 2, 3, 40])
def test_a_causal_score_is_the_chain_rule(tokens: int) -> None:
    """Guards against a row off by one, and against a chunk that loses the slot at its seam."""
    scores = under(JOINT, "llama", TEXT, tokens=tokens)
    assert scores.mode == "causal"
    assert scores.logprobs[0] is None
    assert told(scores) == pytest.approx([exact(JOINT, TEXT, s, seen=range(s)) for s in range(1, 6)])
    first = float(JOINT.marginals(torch.full((1, 6), JOINT.mask_id))[0, 0, TEXT[0]])
    assert scores.total + math.log(first) == pytest.approx(math.log(JOINT.law()[tuple(TEXT)]))
    assert scores.passes == -(-5 // tokens)
    assert scores.positions == 5


@pytest.mark.parametrize("tokens", [1, 13, 40])
def test_a_left_to_right_score_of_a_masked_model_is_the_chain_rule_too(tokens: int) -> None:
    scores = under(JOINT, "llada", TEXT, mode="left_to_right", start=0, tokens=tokens)
    assert scores.total == pytest.approx(math.log(JOINT.law()[tuple(TEXT)]))
    assert scores.passes == -(-6 // max(tokens // 6, 1))


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_a_pseudo_likelihood_shows_all_other_tokens(family: str) -> None:
    scores = under(JOINT, family, TEXT, mode="pseudo_likelihood")
    others = [[place for place in range(6) if place != slot] for slot in range(6)]
    assert told(scores) == pytest.approx([exact(JOINT, TEXT, s, seen=others[s]) for s in range(1, 6)])


@pytest.mark.parametrize("start", [1, 4, 6, 8])
@pytest.mark.parametrize("tokens", [1, 11, 40])
@pytest.mark.parametrize(("family", "block"), [("sdar", 4), ("fast_dllm_v2", 8)])
def test_a_block_model_sees_no_further_than_its_block(family: str, block: int, tokens: int, start: int) -> None:
    """Wherever a pass ends, and wherever scoring begins: a block is stored as the text has it before the next one."""
    joint = oracles.scrambled(length=10, num_symbols=2, seed=4)
    text = [0, 1, 1, 0, 0, 1, 0, 1, 1, 0]
    ends = [min((slot // block + 1) * block, 10) for slot in range(10)]
    if family == "fast_dllm_v2":  # the row before a block predicts its first slot and sees nothing of it
        ends = [slot if slot % block == 0 else end for slot, end in enumerate(ends)]
    scores = under(joint, family, text, mode="pseudo_likelihood", tokens=tokens, start=start)
    seen = [[place for place in range(ends[slot]) if place != slot] for slot in range(10)]
    assert told(scores) == pytest.approx([exact(joint, text, s, seen=seen[s]) for s in range(start, 10)])
    left = under(joint, family, text, mode="left_to_right", tokens=tokens, start=start)
    assert told(left) == pytest.approx([exact(joint, text, s, seen=range(s)) for s in range(start, 10)])


def test_a_block_model_computes_blocks_and_not_texts() -> None:
    """60 tokens in blocks of 4: a block per token, and the block before it once more where one begins."""
    scores = anyorder.score(tiny("sdar"), [4 + place % 15 for place in range(60)])
    assert scores.positions == 59 * 4 + 14 * 4


@pytest.mark.parametrize("mode", ["causal", "pseudo_likelihood", "left_to_right"])
def test_the_likeliest_tokens_come_with_their_logarithms(mode: ScoreMode) -> None:
    scores = under(JOINT, "llama" if mode == "causal" else "llada", TEXT, mode=mode, top_logprobs=2)
    for slot in range(1, 6):
        behind = range(slot + 1, 6) if mode == "pseudo_likelihood" else ()
        known = [x if place < slot or place in behind else JOINT.mask_id for place, x in enumerate(TEXT)]
        best = JOINT.marginals(torch.tensor([known]))[0, slot].topk(2)
        found = scores.tokens[slot].alternatives
        assert [candidate.id for candidate in found] == best.indices.tolist()
        assert [candidate.logprob for candidate in found] == pytest.approx(best.values.log().tolist())
        own = [candidate.logprob for candidate in found if candidate.id == TEXT[slot]]
        assert own in ([], [scores.logprobs[slot]]), "the same number, to the last bit: clients compare them"
    assert scores.tokens[0].alternatives == ()


def test_the_mask_token_is_impossible_where_masks_are_fed() -> None:
    scores = anyorder.score(tiny("llada"), [5, MASK, 6], top_logprobs=20)
    assert scores.logprobs[1] == -math.inf
    assert all(candidate.id != MASK for token in scores.tokens for candidate in token.alternatives)
    assert anyorder.score(tiny("llama"), [5, MASK, 6]).total > -math.inf


@pytest.mark.parametrize(("family", "start"), [("llada", 0), ("dream", 1), ("llada", 3)])
def test_a_monte_carlo_score_comes_to_the_log_probability_of_exact_conditionals(family: str, start: int) -> None:
    """Unbiased: the mean over many samples is the log-probability itself, given what is not scored. Guards against
    sizes of sets that are not equally likely, and against weights that are those of the whole text."""
    samples = 4000
    scores = under(JOINT, family, TEXT, mode="monte_carlo", start=start, samples=samples, tokens=6 * 500)
    left = under(JOINT, family, TEXT, mode="left_to_right", start=start).total
    assert scores.total == pytest.approx(left, abs=0.1)
    assert scores.passes == samples // 500
    assert [value is None for value in scores.logprobs] == [slot < start for slot in range(6)]


def test_a_monte_carlo_score_has_no_noise_where_all_tokens_are_equally_hard() -> None:
    even = oracles.independent([[0.25, 0.75]] * 6)
    for seed in range(3):
        scores = under(even, "llada", [0] * 6, mode="monte_carlo", start=0, samples=7, seed=seed)
        assert scores.total == pytest.approx(6 * math.log(0.25))


def test_a_monte_carlo_score_knows_its_error() -> None:
    """Nine estimates of ten are within 2.5 of their errors, which halve with four times the samples."""
    exact = under(JOINT, "llada", TEXT, mode="left_to_right", start=1).total
    found = [under(JOINT, "llada", TEXT, mode="monte_carlo", start=1, samples=64, seed=seed) for seed in range(30)]
    errors = [scores.error or 0.0 for scores in found]
    assert sum(abs(s.total - exact) <= 2.5 * e for s, e in zip(found, errors, strict=True)) >= 27
    more = [under(JOINT, "llada", TEXT, mode="monte_carlo", start=1, samples=256, seed=s).error or 0 for s in range(30)]
    assert sum(more) / sum(errors) == pytest.approx(0.5, rel=0.1)
    assert under(JOINT, "llada", TEXT, mode="monte_carlo", start=1, samples=1).error is None
    assert under(JOINT, "llada", TEXT, mode="left_to_right", start=1).error is None


def test_a_seed_names_the_maskings() -> None:
    first, again, other = (
        anyorder.score(tiny("llada"), PROSE, mode="monte_carlo", samples=9, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first.total != other.total


def test_a_monte_carlo_score_is_that_of_the_published_estimator() -> None:
    """LLaDA's evaluation: cross-entropy of the masked tokens over the part that is masked, averaged."""
    model = tiny("llada")
    scores = anyorder.score(model, PROSE, mode="monte_carlo", start=4, samples=12, seed=3)
    scorer = build_scorer(
        *resolve_scoring(ScoreParams(mode="monte_carlo", start=4, samples=12, seed=3), model), model, PROSE, tokens=1
    )
    losses: list[float] = []
    sizes: list[int] = []
    for _ in range(12):
        (window,) = scorer.plan()
        masked = window.ids == MASK
        logits = Runner(model.network).forward([window.wanting(torch.arange(11))], [None])[0].detach()
        logits[:, MASK] = -math.inf
        loss = torch.nn.functional.cross_entropy(logits[masked], torch.tensor(PROSE)[masked], reduction="sum")
        losses.append(float(loss) / (int(masked.sum()) / 7))
        sizes.append(int(masked.sum()))
        assert not bool(masked[:4].any())
    assert scores.total == pytest.approx(-sum(losses) / 12)
    assert set(sizes) == set(range(1, 8)), "every size must occur"


# ---------------------------------------------------------------- real networks


@pytest.mark.parametrize("model", [tiny("llama"), tiny("fast_dllm_v2"), adapted()], ids=["llama", "fast", "adapter"])
def test_the_causal_score_of_an_answer_is_how_sure_its_decoder_was(model: LoadedModel) -> None:
    answer = anyorder.generate(model, PROSE[:4], mode="causal", max_new_tokens=8, stop_ids=(), temperature=1.0)
    scores = anyorder.score(model, [*PROSE[:4], *answer.ids], start=4)
    assert scores.mode == "causal"
    assert scores.logprobs[:4] == (None,) * 4
    assert told(scores) == pytest.approx([math.log(slot.confidence) for slot in answer.trace], abs=1e-5)


@pytest.mark.parametrize("model", [tiny("llama"), adapted()], ids=["llama", "adapter"])
def test_the_causal_score_is_the_cross_entropy_of_training(model: LoadedModel) -> None:
    nats = causal_score(model, Document(PROSE[:1], PROSE[1:])).nats
    assert -anyorder.score(model, PROSE).total == pytest.approx(nats)


@pytest.mark.parametrize(
    "model",
    [tiny("llada"), tiny("dream"), tiny("sdar"), tiny("fast_dllm_v2"), adapted()],
    ids=["llada", "dream", "sdar", "fast_dllm_v2", "adapter"],
)
def test_a_pseudo_likelihood_is_how_sure_a_decoder_is_of_a_lone_hole(model: LoadedModel) -> None:
    scores = anyorder.score(model, PROSE, mode="pseudo_likelihood", top_logprobs=1)
    for slot in range(1, len(PROSE)):
        filled = anyorder.infill(model, [*PROSE[:slot], Hole(1), *PROSE[slot + 1 :]])
        (hole,) = filled.trace
        (best,) = scores.tokens[slot].alternatives
        assert (best.id, best.logprob) == (hole.id, pytest.approx(math.log(hole.confidence), abs=1e-5))


def test_a_left_to_right_score_hides_everything_behind_the_token() -> None:
    model = tiny("llada")
    scores = anyorder.score(model, PROSE, mode="left_to_right", start=0)
    for slot, value in enumerate(scores.logprobs):
        ids = torch.tensor([*PROSE[:slot], *[MASK] * (len(PROSE) - slot)])
        window = Window(
            ids=ids, start=0, visible=len(ids), rows=torch.tensor([slot]), attention="bidirectional", stores=False
        )
        logits = Runner(model.network).forward([window], [None])[0][0].detach()
        logits[MASK] = -math.inf
        assert value == pytest.approx(float(logits.log_softmax(-1)[PROSE[slot]]))


def test_the_estimator_is_causal_where_there_is_one() -> None:
    modes = {name: anyorder.score(tiny(name), PROSE).mode for name in ("llama", "fast_dllm_v2", "llada", "sdar")}
    masked = "pseudo_likelihood"
    assert modes == {"llama": "causal", "fast_dllm_v2": "causal", "llada": masked, "sdar": masked}


def test_one_token_alone_is_not_scored() -> None:
    scores = anyorder.score(tiny("llama"), [5])
    assert (scores.logprobs, scores.total, scores.passes) == ((None,), 0, 0)


def test_impossible_tokens_are_minus_infinity_and_not_nan() -> None:
    joint = oracles.cities(0.5)
    scores = under(joint, "llada", [0, 1], mode="pseudo_likelihood", top_logprobs=2)
    assert scores.logprobs[1] == pytest.approx(math.log(1e-30), rel=1e-3)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("family", "params", "param", "text"),
    [
        ("llama", {"mode": "pseudo_likelihood"}, "mode", "has no score 'pseudo_likelihood'; use 'causal'"),
        ("llada", {"mode": "causal"}, "mode", "use 'pseudo_likelihood' or 'left_to_right' or 'monte_carlo'"),
        (
            "sdar",
            {"mode": "monte_carlo"},
            "mode",
            "has no score 'monte_carlo'; use 'pseudo_likelihood' or 'left_to_right'",
        ),
        ("llada", {"mode": "monte_carlo", "top_logprobs": 1}, "top_logprobs", "has no meaning in mode 'monte_carlo'"),
        ("llada", {"samples": 0}, "samples", "must be a whole number from 1 to 100000, got 0"),
        ("llada", {"seed": -1}, "seed", "must be a whole number of at least 0, got -1"),
        ("llada", {"mode": "casual"}, "mode", "unknown way of scoring 'casual'; did you mean 'causal'?"),
        ("wedlm", {}, "mode", "has no score: it neither reads a text from the left nor masks within one"),
        ("wedlm", {"mode": "causal"}, "mode", "has no score"),
        (
            "nemotron_labs_diffusion",
            {"mode": "pseudo_likelihood"},
            "mode",
            "has no score 'pseudo_likelihood'; use 'causal'",
        ),
        ("diffusion_gemma", {"mode": "left_to_right"}, "mode", "has no score 'left_to_right'; use 'causal'"),
        ("llama", {"start": 0}, "start", "nothing stands before the first token"),
        ("dream", {"start": 0}, "start", "predicts a token from the one before it; use 1"),
        ("llama", {"start": -1}, "start", "must be a whole number of at least 0, got -1"),
        ("llama", {"top_logprobs": 21}, "top_logprobs", "must be a whole number from 0 to 20, got 21"),
    ],
)
def test_what_cannot_be_scored_is_named(family: str, params: dict[str, Any], param: str, text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        anyorder.score(tiny(family), PROSE, **params)
    assert caught.value.param == param
    assert text in str(caught.value)


def test_a_text_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ContextError, match="the text has 97 tokens, and the model's context is 96"):
        anyorder.score(tiny("llada"), [5] * 97)


def test_a_hole_is_no_text() -> None:
    with pytest.raises(ParameterError, match="a text with holes cannot be scored"):
        anyorder.score(tiny("llada"), [5, Hole(1)])


def test_a_model_without_a_mask_has_no_masked_score() -> None:
    with pytest.raises(ModelError, match="has no mask token, which 'pseudo_likelihood' needs"):
        anyorder.score(tiny("llada", mask_token_id=None), PROSE)


def test_nan_is_an_error() -> None:
    model = tiny("llama")
    model = replace(model, network=deepcopy(model.network))
    with torch.no_grad():
        next(iter(model.network.parameters())).fill_(math.nan)
    with pytest.raises(ModelError, match="logits are nan"):
        anyorder.score(model, PROSE)


def test_a_scored_event_is_plain_data() -> None:
    assert Scored(0, (1,), (-0.5,)).as_dict() == {
        "type": "scored", "request": 0, "slots": (1,), "logprobs": (-0.5,), "alternatives": (),
        "error": None,
    }  # fmt: skip


def test_recorded_maskings_give_the_recorded_likelihood() -> None:
    """What LLaDA's own evaluation code computed, from the sets that it masked; it leaves the mask token possible."""
    case = RECORDED
    model = anyorder.load(str(LLADA), dtype="float32")
    start = len(case["prompt_ids"])
    ids = [*case["prompt_ids"], *case["answer_ids"]]
    rows = [row for draw in case["draws"] for row in draw["perturbed"]]
    sets = [(torch.tensor(row) == case["params"]["mask_id"]).nonzero().flatten() for row in rows]
    wanted, decode = resolve_scoring(ScoreParams(mode="monte_carlo", start=start, samples=len(sets)), model)
    scorer = cast(MonteCarloScorer, build_scorer(wanted, decode, model, ids, tokens=200))
    scorer.mask_id = None
    scorer._masked = sets.__getitem__  # type: ignore[method-assign]
    engine = Engine(Runner(model.network), [Running(scorer)])
    fold = ScoreFold(lambda _: "", wanted)
    for event in engine.start():
        fold.add(event)
    while engine.running:
        for event in engine.step():
            fold.add(event)
    assert fold.result().total == pytest.approx(case["log_likelihood"], abs=1e-3)
