"""`realtime` on a whole canvas: a short first block, and the answer that these parameters give."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.talk import talking
from tests.server.live import live

import anyorder
from anyorder import DecodeParams
from anyorder.server.realtime import FIRST_BLOCK_LENGTH, with_early_text

MESSAGES: Any = [{"role": "user", "content": "7 8 9"}]


def test_the_answer_is_that_of_a_short_first_block() -> None:
    model = talking("llada")
    expected = anyorder.generate(model, MESSAGES, max_new_tokens=20, first_block_length=FIRST_BLOCK_LENGTH, stop_ids=())
    asked: dict[str, Any] = {"messages": MESSAGES, "max_tokens": 20, "ignore_eos": True}
    with live(model) as server:
        found = server.chat(**asked, realtime=True).json()
        plain = server.chat(**asked).json()
        whole = server.chat(**asked, realtime=True, diffusion={"first_block_length": 20}).json()
    assert found["choices"][0]["message"]["content"] == expected.text
    assert found["usage"]["diffusion"]["blocks"] == expected.stats.blocks == 2
    assert whole["choices"] == plain["choices"]
    assert plain["usage"]["diffusion"]["blocks"] == 1


@pytest.mark.parametrize("family", ["sdar", "fast_dllm_v2", "llama"])
def test_other_models_answer_as_ever(family: str) -> None:
    with live(talking(family)) as server:
        answers = [server.chat(messages=MESSAGES, max_tokens=9, realtime=urgent).json() for urgent in (True, False)]
    assert answers[0]["choices"] == answers[1]["choices"]


@pytest.mark.parametrize(
    ("changes", "decoder", "length"),
    [
        ({}, "full", FIRST_BLOCK_LENGTH),
        ({"mode": "full"}, "block", FIRST_BLOCK_LENGTH),
        ({}, "block", None),
        ({"mode": "block"}, "full", None),
        ({"block_length": 16}, "full", None),
        ({"steps": 4}, "full", None),
        ({"first_block_length": 3}, "full", 3),
        ({"max_new_tokens": 0}, "full", None),
    ],
)
def test_what_the_client_says_goes_first(changes: dict[str, Any], decoder: str, length: int | None) -> None:
    assert with_early_text(DecodeParams(**changes), decoder).first_block_length == length
