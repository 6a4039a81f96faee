"""Likelihoods against the slow way: one forward per block, with its mask written out, and a log-softmax."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator

import pytest
import torch
from tests.engine.tiny import MASK, tiny
from torch import Tensor

from anyorder.conversion.likelihood import RATIOS, SEED, Document, Score, causal_score, masked_scores, same_logits
from anyorder.models.adapter import Adapter
from anyorder.models.attention import attend_alone
from anyorder.models.loaded import LoadedModel
from anyorder.training.noise import StepDraws

DOCUMENT = Document([1, 5, 7, 9, 4, 11, 6, 8, 3, 10, 2], [12, 0, 14, 15, 19, 1, 2, 4, 9, 9, 7, 13, 5, 5, 18, 16])


def adapted() -> LoadedModel:
    """The tiny Llama with an adapter that changes what it denoises, and its mask token."""
    model = tiny("llama")
    adapter = Adapter(model.config, rank=2, alpha=4, mask_token_id=MASK).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return dataclasses.replace(model, network=copy.deepcopy(model.network), adapter=adapter)


MODELS: dict[str, Callable[[], LoadedModel]] = {
    "llama": lambda: tiny("llama"),
    "adapted": adapted,
    "sdar": lambda: tiny("sdar"),
    "fast_dllm_v2": lambda: tiny("fast_dllm_v2"),
    "llada": lambda: tiny("llada"),
    "dream": lambda: tiny("dream"),
}


def logits(model: LoadedModel, ids: Tensor, mask: Tensor | None, *, noisy: Tensor | None = None) -> Tensor:
    """[T, V] of one sequence; an adapter is on for the `noisy` rows."""
    on = model.adapter.on(noisy) if model.adapter is not None and noisy is not None else None
    hidden = model.network(ids, torch.arange(len(ids)), attend_alone(mask), None, on)
    return model.network.head(hidden).log_softmax(-1)


def masks(ratio: float, *, complement: bool) -> Tensor:
    """[T] bool: which tokens of the answer are masked."""
    length = len(DOCUMENT.prompt_ids) + len(DOCUMENT.answer_ids)
    drawn = round((1 - ratio if complement else ratio) * 100)
    uniform = StepDraws(SEED, drawn).uniform("mask", 1, length)[0]
    chosen = uniform < (1 - ratio if complement else ratio)
    return (~chosen if complement else chosen) & (torch.arange(length) >= len(DOCUMENT.prompt_ids))


def said(model: LoadedModel, chosen: Tensor, block_length: int) -> Iterator[tuple[int, float, bool]]:
    """(column, nats, hit) of every masked token, a forward for each block."""
    clean = torch.tensor([*DOCUMENT.prompt_ids, *DOCUMENT.answer_ids])
    shift = int(model.spec.shift)
    for start in range(0, len(clean), block_length):
        end = min(start + block_length, len(clean))
        ids = torch.cat([clean[:start], torch.where(chosen, MASK, clean)[start:end]])
        block = torch.arange(end) // block_length
        mask = block[None] <= block[:, None]  # a block sees itself both ways
        if model.spec.attention == "causal":
            mask[:start] &= torch.ones(end, end, dtype=torch.bool).tril()[:start]
        rows = logits(model, ids, mask, noisy=torch.arange(end) >= start)
        for column in range(start, end):
            if chosen[column] and column - shift >= start:  # else the clean text before predicts it
                row = rows[column - shift]
                yield column, -float(row[clean[column]]), int(row.argmax()) == int(clean[column])


def total(found: list[tuple[int, float, bool]]) -> Score:
    return Score(len(found), sum(nats for _, nats, _ in found), sum(hit for *_, hit in found))


def same(got: Score, expected: Score) -> bool:
    return (got.tokens, got.hits) == (expected.tokens, expected.hits) and math.isclose(
        got.nats, expected.nats, rel_tol=1e-9, abs_tol=1e-9
    )


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_every_ratio_is_scored_as_one_forward_per_block_scores_it(name: str) -> None:
    """Guards against a mask, a shift or an adapter that differs from what a decoder would see."""
    model = MODELS[name]()
    length = {"sdar": 4, "llada": 1000, "dream": 1000}.get(name, 8)
    scores = masked_scores(model, DOCUMENT).by_ratio
    assert list(scores) == list(RATIOS)
    for ratio, got in scores.items():
        second_view = ratio > 0.5 and ratio < 1 and length < 1000  # measured as the complement of its partner
        expected = total(list(said(model, masks(ratio, complement=second_view), length)))
        assert same(got, expected), (ratio, got, expected)
    assert scores[0.15].tokens < scores[0.55].tokens < scores[1.0].tokens


@pytest.mark.parametrize("name", ["llama", "adapted", "sdar", "fast_dllm_v2"])
@torch.inference_mode()
def test_depth_is_the_place_in_a_block_without_prompt(name: str) -> None:
    model = MODELS[name]()
    length = 4 if name == "sdar" else 8
    found = list(said(model, masks(1.0, complement=False), length))
    first = -(-len(DOCUMENT.prompt_ids) // length) * length  # the prompt's tail shares the block before
    depths = masked_scores(model, DOCUMENT).by_depth
    assert len(depths) == length
    for depth, got in enumerate(depths):
        assert same(got, total([one for one in found if one[0] >= first and one[0] % length == depth])), depth
    assert (depths[0].tokens == 0) == model.spec.shift  # the causal mode's own
    assert depths[1].tokens > 0


def test_models_without_blocks_have_no_depth() -> None:
    assert masked_scores(tiny("llada"), DOCUMENT).by_depth == []


def causally(model: LoadedModel) -> list[tuple[int, float, bool]]:
    ids = torch.tensor([*DOCUMENT.prompt_ids, *DOCUMENT.answer_ids])
    rows = logits(model, ids, torch.ones(len(ids), len(ids), dtype=torch.bool).tril())
    return [
        (column, -float(rows[column - 1, ids[column]]), int(rows[column - 1].argmax()) == int(ids[column]))
        for column in range(len(DOCUMENT.prompt_ids), len(ids))
    ]


@torch.inference_mode()
def test_the_causal_score_is_that_of_reading_left_to_right() -> None:
    model = tiny("llama")
    assert same(causal_score(model, DOCUMENT), total(causally(model)))
    assert causal_score(model, DOCUMENT).tokens == len(DOCUMENT.answer_ids)


def test_the_causal_mode_reads_with_the_adapter_off() -> None:
    assert causal_score(adapted(), DOCUMENT) == causal_score(tiny("llama"), DOCUMENT)
    assert masked_scores(adapted(), DOCUMENT) != masked_scores(tiny("llama"), DOCUMENT)


def test_an_empty_answer_scores_nothing() -> None:
    assert causal_score(tiny("llama"), Document([1, 2, 3], [])) == Score(0, 0.0, 0)


def test_equal_logits_are_told_from_almost_equal_ones() -> None:
    model = tiny("llama")
    other = dataclasses.replace(model, network=copy.deepcopy(model.network))
    assert same_logits(model, other, DOCUMENT)
    with torch.no_grad():
        other.network.norm.mul_(1 + 1e-12)
    assert not same_logits(model, other, DOCUMENT)
