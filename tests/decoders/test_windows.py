"""What a pass computes: the columns that each cache scheme feeds, the rows it wants, and how often it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.engine.tiny import tiny

import anyorder
from anyorder import Hole
from anyorder.window import Window

Seen = list[list[Window]]


def windows(family: str, prompt: list[int | Hole], **params: Any) -> Seen:
    """The windows of every pass of a run."""
    stream = anyorder.stream(tiny(family), prompt, stop_ids=(), **params)
    seen: Seen = []
    forward = stream.runner.forward

    def watched(windows: Any, storages: Any) -> Any:
        seen.append([replace(window, ids=window.ids.clone()) for window in windows])  # they are views of the canvas
        return forward(windows, storages)

    stream.runner.forward = watched
    stream.generations()
    return seen


def spans(seen: Seen) -> list[tuple[int, int, int]]:
    """(start, end, visible) of the first window of every pass."""
    return [(w.start, w.end, w.visible) for w, *_ in seen]


PROMPT: list[int | Hole] = [5, 6, 7]


def test_an_uncached_canvas_is_fed_whole() -> None:
    seen = windows("llada", PROMPT, max_new_tokens=4, block_length=2)
    assert spans(seen) == [(0, 7, 7)] * 4
    assert not any(w.stores for pass_ in seen for w in pass_)
    assert seen[0][0].rows.tolist() == [3, 4]  # only the block's open slots


@pytest.mark.parametrize(
    ("cache", "expected"),
    [
        ("prefix", [(0, 7, 7), (3, 7, 7), (0, 7, 7), (5, 7, 7)]),
        ("dual", [(0, 7, 7), (3, 5, 7), (0, 7, 7), (5, 7, 7)]),
    ],
)
def test_approximate_caches_refresh_at_the_first_pass_of_a_block(
    cache: str, expected: list[tuple[int, int, int]]
) -> None:
    assert spans(windows("llada", PROMPT, max_new_tokens=4, block_length=2, cache=cache)) == expected


def test_a_shifted_cached_block_decides_its_first_slot_while_the_row_before_it_is_fed() -> None:
    seen = windows("dream", PROMPT, max_new_tokens=4, block_length=2, cache="dual")
    assert [w.rows.tolist() for (w,) in seen] == [[2], [0], [4], [0]]


def test_a_shifted_slot_is_predicted_by_the_row_before_it() -> None:
    seen = windows("dream", [Hole(1), 5, Hole(1), 6], max_new_tokens=1, steps=1, policy="entropy")
    assert [w.rows.tolist() for (w,) in seen] == [[0, 1, 3]]  # column 0 has only itself


def test_guidance_feeds_a_second_canvas_without_the_prompt() -> None:
    (conditional, unconditional), *_ = windows("llada", [5, Hole(1), 6], max_new_tokens=2, cfg_scale=1.0)
    assert conditional.ids.tolist() == [5, 20, 6, 20, 20]
    assert unconditional.ids.tolist() == [20] * 5
    assert torch.equal(conditional.rows, unconditional.rows)


def test_guidance_masks_forced_tokens_and_keeps_committed_ones() -> None:
    seen = windows("llada", [5], max_new_tokens=3, cfg_scale=1.0, forced={1: 9})
    assert seen[0][1].ids.tolist() == [20] * 4
    second = seen[1][1].ids.tolist()
    assert second[0] == second[2] == 20
    assert sum(token != 20 for token in second) == 1


def test_causal_decoding_feeds_the_prompt_once_and_then_one_token() -> None:
    assert spans(windows("llama", PROMPT, max_new_tokens=3)) == [(0, 3, 3), (3, 4, 4), (4, 5, 5)]
    assert spans(windows("llama", PROMPT, max_new_tokens=3, cache="none")) == [(0, 3, 3), (0, 4, 4), (0, 5, 5)]


def test_forced_tokens_cost_a_causal_decoder_no_pass() -> None:
    assert spans(windows("llama", PROMPT, max_new_tokens=4, forced={0: 9, 2: 9})) == [(0, 4, 4), (4, 6, 6)]


def test_an_unshifted_block_model_stores_blocks_in_the_next_blocks_first_pass() -> None:
    """Prompt of one whole block and one token, blocks of two."""
    seen = windows("sdar", PROMPT, max_new_tokens=3, block_length=2, policy="sequential")
    assert spans(seen) == [(0, 4, 4), (2, 6, 6), (4, 6, 6)]
    assert all(w.attention == "block" for (w,) in seen)
    assert [w.rows.tolist() for (w,) in seen] == [[3], [2, 3], [1]]


def test_a_shifted_block_model_writes_blocks_and_predicts_the_next_ones_first_slot() -> None:
    seen = windows("fast_dllm_v2", PROMPT, max_new_tokens=4, block_length=2)
    assert [w.phase for (w,) in seen] == ["write", "denoise", "write", "denoise", "write"]
    assert spans(seen) == [(0, 2, 2), (2, 4, 4), (2, 4, 4), (4, 6, 6), (4, 6, 6)]
    assert [w.rows.tolist() for (w,) in seen] == [[], [0], [1], [0], [1]]


def test_an_uncached_block_model_feeds_everything_so_far() -> None:
    assert spans(windows("sdar", PROMPT, max_new_tokens=3, block_length=2, cache="none")) == [
        (0, 4, 4), (0, 6, 6), (0, 6, 6),
    ]  # fmt: skip


def test_a_sub_block_cache_feeds_the_block_while_the_sub_blocks_first_slot_is_open() -> None:
    seen = windows(
        "fast_dllm_v2", [5], max_new_tokens=7, block_length=8, sub_block_length=4, cache="sub_block",
        policy="sequential",
    )  # fmt: skip
    assert spans(seen) == [(0, 8, 8), (0, 4, 8), (0, 4, 8), (0, 8, 8), (4, 8, 8), (4, 8, 8), (4, 8, 8)]


def test_positions_are_what_was_fed() -> None:
    answer = anyorder.generate(tiny("llada"), [5, 6, 7], max_new_tokens=4, cache="dual", block_length=2, stop_ids=())
    assert answer.stats.positions == 7 + 2 + 7 + 2
