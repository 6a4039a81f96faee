"""`usage.diffusion`: what was computed, and the length that was paid for, also where an answer was cut."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.talk import talking
from tests.server.live import Live, live
from tests.server.test_streams import frames

import anyorder

MESSAGES: Any = [{"role": "user", "content": "7 8 9"}]


def figures(server: Live, **changes: Any) -> dict[str, Any]:
    return server.chat(messages=MESSAGES, **changes).json()["usage"]["diffusion"]


@pytest.mark.parametrize("family", ["llada", "sdar", "fast_dllm_v2", "llama"])
@pytest.mark.parametrize("length", [5, 9])
def test_what_was_paid_for(family: str, length: int) -> None:
    """Nobody stops early here, so every slot of a block that is wanted is decided."""
    model = talking(family)
    expected = anyorder.generate(model, MESSAGES, max_new_tokens=length, stop_ids=())
    with live(model) as server:
        found = figures(server, max_tokens=length, ignore_eos=True)
    prompt, block = len(expected.prompt_ids), found["block_length"]
    paid = length if family in ("llada", "llama") else -(-(prompt + length) // block) * block - prompt
    assert found["canvas_slots"] == paid
    assert found["unused_share"] == pytest.approx(1 - length / paid)
    assert found["positions"] == expected.stats.positions
    if family == "llama":
        assert (found["positions_by_block"], block) == ([], None)
    else:
        assert len(found["positions_by_block"]) == found["blocks"] == expected.stats.blocks
        assert sum(found["positions_by_block"]) == found["positions"]
        assert all(cost > 0 for cost in found["positions_by_block"])


def test_a_stop_string_leaves_no_gap(letters: Live) -> None:
    """One token per pass, and passes that were computed before anybody could stop them do not count."""
    whole = letters.chat(max_tokens=10).json()["usage"]
    cut = letters.chat(max_tokens=10, stop=["r"]).json()["usage"]
    diffusion = cut["diffusion"]
    taken = cut["completion_tokens"] + diffusion["wasted"]
    assert taken < whole["completion_tokens"]
    assert diffusion["passes"] == diffusion["committed"] == taken
    assert whole["diffusion"]["positions"] - diffusion["positions"] == whole["completion_tokens"] - taken
    assert diffusion["canvas_slots"] == taken
    assert diffusion["unused_share"] == pytest.approx(diffusion["wasted"] / taken)


def test_streams_tell_the_same_as_whole_answers(letters: Live) -> None:
    whole = letters.chat(max_tokens=10, stop=["r"]).json()["usage"]
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    last = frames(letters.chat(max_tokens=10, stop=["r"], **options).text)[-1]
    assert last["usage"] == whole
    finished = frames(letters.chat(max_tokens=10, stop=["r"], stream_format="events").text)[-1]
    assert finished["positions"] == whole["diffusion"]["positions"]


def test_a_block_that_was_begun_counts(numbers: Live) -> None:
    """The answer stops inside a block, for which the whole block was computed."""
    asked = {"messages": MESSAGES, "max_tokens": 16, "stop": ["7"], "temperature": 1.2}
    answers = (numbers.chat(**asked, seed=seed).json() for seed in range(20))
    answer = next(found for found in answers if found["choices"][0]["finish_reason"] == "stop")
    found = answer["usage"]["diffusion"]
    assert (found["canvas_slots"] + answer["usage"]["prompt_tokens"]) % found["block_length"] == 0
    assert sum(found["positions_by_block"]) == found["positions"] > 0
    assert 0 < found["unused_share"] <= 1


def test_answers_are_summed(numbers: Live) -> None:
    one, two = figures(numbers, max_tokens=9, seed=1, temperature=1.2), 2
    both = figures(numbers, max_tokens=9, seed=1, temperature=1.2, n=two)
    assert both["canvas_slots"] > one["canvas_slots"]
    assert len(both["positions_by_block"]) > len(one["positions_by_block"])
    assert both["positions"] == sum(both["positions_by_block"])
