"""A budget for reasoning on every kind of canvas: random models whose template has opened the channel."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.engine.talk import NumberTokenizer
from tests.engine.tiny import tiny
from tests.server.live import Live, live
from tests.server.test_streams import frames

from anyorder.models.load import load
from anyorder.server.settings import ServerSettings

CLOSE = 23
LENGTH, BUDGET = 32, 9
SAMPLED: dict[str, Any] = {"max_tokens": LENGTH, "temperature": 1.0, "ignore_eos": True}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "full": ("llada", {}),
    "full, several at once": ("llada", {"policy": "threshold", "threshold": 0.05}),
    "full, shifted": ("dream", {}),
    "full, block by block": ("llada", {"block_length": 8, "cache": "dual"}),
    "full, growing": ("llada", {"block_length": 8, "growth": "block"}),
    "block": ("sdar", {"threshold": 0.1}),
    "block, without a cache": ("sdar", {"threshold": 0.1, "cache": "none"}),
    "sub-blocks": ("fast_dllm_v2", {"sub_block_length": 4, "cache": "sub_block", "threshold": 0.1}),
    "edited": ("llada2_moe", {"threshold": 0.1, "edit_threshold": 0.1}),
    "causal": ("llama", {}),
    "drafts": ("llama", {"draft": "ngram"}),
    "seeded": ("nemotron_labs_diffusion", {"threshold": 0.1}),
    "reordered": ("wedlm", {"threshold": 0.1}),
    "noise": ("diffusion_gemma", {"block_length": 16}),
}


class Thinking(NumberTokenizer):
    """Id 23 closes the channel, which the template has opened; blanks have no tokens."""

    def answer_opening(self, inputs: Any = None) -> str:
        return "<think>"

    def token_id(self, token: str) -> int | None:
        return CLOSE if token == "</think>" else None

    def is_control(self, token_id: int) -> bool:
        return token_id == CLOSE

    def decode(self, ids: Any, skip_special: bool = True, shown: frozenset[int] = frozenset()) -> str:
        return "".join("</think>" if id == CLOSE else f"{id}," for id in ids)


def thinking(family: str) -> Any:
    folder = Path(__file__).parents[2] / "reference" / family
    model = load(folder, verify=False) if family == "diffusion_gemma" else tiny(family)
    return replace(model, tokenizer=cast(Any, Thinking()), source=f"tiny {family}")


def ask(server: Live, way: dict[str, Any], seed: int, **changes: Any) -> Any:
    banned: dict[str, Any] = {"banned_ids": [CLOSE]}
    return server.chat(**SAMPLED, seed=seed, thinking_budget=BUDGET, diffusion={**banned, **way}, **changes)


@pytest.mark.parametrize("way", list(WAYS))
def test_the_channel_is_closed_at_its_place(way: str) -> None:
    family, params = WAYS[way]
    with live(thinking(family), ServerSettings(reasoning_parser="think")) as server:
        for seed in range(3):
            body = ask(server, params, seed).json()
            message, usage = body["choices"][0]["message"], body["usage"]
            assert len(re.findall(r"\d+,", message["reasoning_content"])) == BUDGET
            assert len(re.findall(r"\d+,", message["content"])) == LENGTH - BUDGET - 1
            assert (usage["completion_tokens"], usage["reasoning_tokens"]) == (LENGTH, BUDGET + 1)
            spent = usage["diffusion"]
            assert spent["committed"] - spent["wasted"] == LENGTH - 1
            assert spent["tokens_per_forward"] == pytest.approx((LENGTH - 1) / spent["passes"])
            free = server.chat(**SAMPLED, seed=seed, diffusion={"banned_ids": [CLOSE], **params}).json()
            thought = free["choices"][0]["message"]["reasoning_content"]
            assert thought.startswith(message["reasoning_content"]), "what was handed out is what it would have thought"
            shown = frames(ask(server, params, seed, stream=True).text)
            deltas = [frame["choices"][0]["delta"] for frame in shown]
            for name in ("reasoning_content", "content"):
                assert "".join(delta.get(name) or "" for delta in deltas) == message[name]
    metrics = server.service.metrics
    assert metrics.failed == 0
