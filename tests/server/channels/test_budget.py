"""A budget for reasoning over HTTP: the channel is closed for the model, and the answer goes on as one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.server.channels.speaking import PROMPT, TEMPLATE, speaking
from tests.server.live import Live, live
from tests.server.test_refusals import refused
from tests.server.test_responses import events, posted
from tests.server.test_streams import frames

from anyorder import DecodeParams
from anyorder.server.backend import Backend
from anyorder.server.settings import ServerSettings
from anyorder.server.surfaces.prepare import thinking_budget
from anyorder.server.wire.chat import ChatRequest
from anyorder.serving import ServiceSettings

ROOM = ServiceSettings(kv_bytes=1 << 24)
THOUGHT = "<think>" + "Hm. Let me see, one two three. " * 4
SAID = THOUGHT + "</think>\n\n" + "The answer is what it always was: forty-two, of course. " * 2
CLOSING = "\n</think>\n\n"
BLOCKS = {"mode": "block", "policy": "threshold", "threshold": 0.5, "block_length": 16}
WAYS: dict[str, dict[str, Any]] = {"causal": {}, "blocks": BLOCKS, "drafts": {"draft": "lookup"}}
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "?"}], "max_tokens": 120}
Way = pytest.mark.parametrize("way", list(WAYS))


@pytest.fixture(scope="module")
def thinker() -> Iterator[Live]:
    with live(speaking(SAID), engine=ROOM) as server:
        yield server


def expected(budget: int, length: int = 120) -> tuple[str, str]:
    """Reasoning and content of a model whose every slot has its own character, whatever stands before it."""
    whole = (SAID[:budget] + CLOSING + SAID[budget + len(CLOSING) :])[:length]
    thought, _, content = whole.partition("</think>")
    return thought.removeprefix("<think>").strip(), content.strip()


@Way
@pytest.mark.parametrize("budget", [8, 23, 40])
def test_reasoning_ends_where_its_budget_does(thinker: Live, way: str, budget: int) -> None:
    body = thinker.chat(**ASKED, thinking_budget=budget, diffusion=WAYS[way]).json()
    message, usage = body["choices"][0]["message"], body["usage"]
    thought, content = expected(budget)
    assert (message["reasoning_content"], message["content"].strip()) == (thought, content)
    assert body["choices"][0]["finish_reason"] == "length"
    assert usage["reasoning_tokens"] == budget + len(CLOSING.rstrip())
    assert usage["completion_tokens"] == 120
    assert usage["prompt_tokens"] == PROMPT


@Way
def test_usage_is_that_of_both_parts(thinker: Live, way: str) -> None:
    budget = 23
    body = thinker.chat(**ASKED, thinking_budget=budget, diffusion=WAYS[way]).json()
    whole = thinker.chat(**ASKED, diffusion=WAYS[way]).json()["usage"]["diffusion"]
    spent = body["usage"]["diffusion"]
    decided = 120 - len(CLOSING)
    assert spent["committed"] - spent["wasted"] == decided
    assert spent["tokens_per_forward"] == pytest.approx(decided / spent["passes"])
    assert spent["positions"] > whole["positions"], "the second request reads its prompt"
    if way == "causal":
        assert (spent["passes"], spent["wasted"]) == (decided, 0)
    if way == "blocks":  # 1500 is no multiple of 16: blocks of 4, 16 and 16 slots, and what is left of 1534 on
        assert spent["wasted"] == 4 + 16 + 16 - budget
        assert sum(spent["positions_by_block"]) == spent["positions"]


@Way
def test_streams_say_the_same(thinker: Live, way: str) -> None:
    asked: Any = {**ASKED, "thinking_budget": 23, "diffusion": WAYS[way], "logprobs": True}
    whole = thinker.chat(**asked).json()
    shown = frames(thinker.chat(**asked, stream=True, stream_options={"include_usage": True}).text)
    deltas = [frame["choices"][0]["delta"] for frame in shown[:-1]]
    message = whole["choices"][0]["message"]
    assert "".join(delta.get("content") or "" for delta in deltas) == message["content"]
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == message["reasoning_content"]
    assert [c["finish_reason"] for f in shown[:-1] for c in f["choices"] if c["finish_reason"]] == ["length"]
    assert shown[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert shown[-1]["usage"]["diffusion"]["committed"] == whole["usage"]["diffusion"]["committed"]
    logs = whole["choices"][0]["logprobs"]["content"]
    assert "".join(log["token"] for log in logs) == SAID[:23] + CLOSING + SAID[23 + len(CLOSING) : 120]
    assert all(log["logprob"] == 0 for log in logs[23 : 23 + len(CLOSING)]), "nobody has drawn these"


@Way
def test_typed_events_begin_the_canvas_anew_with_the_same_slots(thinker: Live, way: str) -> None:
    asked: Any = {**ASKED, "thinking_budget": 23, "diffusion": WAYS[way], "stream_format": "events"}
    told = frames(thinker.chat(**asked, stream=True).text)
    first, second = [data for data in told if data["type"] == "started"]
    assert first["answer_start"] == second["answer_start"] == PROMPT
    known = PROMPT + 23 + len(CLOSING)
    assert bytes(second["ids"][PROMPT:known]).decode() == SAID[:23] + CLOSING
    passes = [data["pass_index"] for data in told if "pass_index" in data]
    assert passes == sorted(passes), "passes are counted on"
    assert told[-1]["type"] == "finished"
    assert told[-1]["passes"] >= passes[-1] + 1
    assert "".join(data["text_delta"] for data in told) == SAID[:23] + CLOSING + SAID[23 + len(CLOSING) : 120]


def test_snapshots_only_move_forward(thinker: Live) -> None:
    asked: Any = {**ASKED, "thinking_budget": 23, "diffusion": BLOCKS, "diffusing": True}
    shown = frames(thinker.chat(**asked).text)
    done = [frame["diffusion_meta"]["diffusion_progress"] for frame in shown]
    assert done == sorted(done)
    assert done[-1] == 1
    last = shown[-1]["choices"][0]["delta"]
    assert (last["reasoning_content"], last["content"].strip()) == expected(23)


def test_responses_have_it_too(thinker: Live) -> None:
    asked: Any = {"input": "?", "max_output_tokens": 120, "thinking_budget": 23}
    body = posted(thinker, **asked).json()
    thought, said = body["output"]
    assert (thought["content"][0]["text"], said["content"][0]["text"].strip()) == expected(23)
    assert body["usage"]["output_tokens_details"]["reasoning_tokens"] == 23 + len(CLOSING.rstrip())
    told = events(posted(thinker, **asked, stream=True).text)
    texts = {kind: "".join(e["delta"] for e in told if e["type"] == kind)
             for kind in ("response.reasoning_text.delta", "response.output_text.delta")}  # fmt: skip
    assert list(texts.values()) == [thought["content"][0]["text"], said["content"][0]["text"]]
    effort = posted(thinker, input="?", max_output_tokens=120, reasoning={"effort": "low"}).json()
    assert effort["output"][0]["content"][0]["text"] == expected(24)[0]


def test_effort_allows_a_share_of_the_longest_answer(thinker: Live) -> None:
    backend = Backend(thinker.service, ServerSettings())

    def budget(params: DecodeParams, **asked: Any) -> int | None:
        return thinking_budget(backend, ChatRequest.model_validate({"model": "m", **ASKED, **asked}), params)

    params = DecodeParams(max_new_tokens=1000)
    found = {
        level: budget(params, reasoning_effort=level) for level in ("none", "low", "medium", "high", "xhigh", "max")
    }
    assert found == {"none": None, "low": 200, "medium": 500, "high": 800, "xhigh": 950, "max": None}
    assert budget(params, reasoning_effort="low", thinking_budget=7) == 7
    assert budget(params.replace(mode="full", steps=10), reasoning_effort="low") is None
    body = thinker.chat(**ASKED, reasoning_effort="low").json()
    assert body["choices"][0]["message"]["reasoning_content"] == expected(24)[0]


def test_less_than_the_budget_is_left_alone(thinker: Live) -> None:
    free, bound = (thinker.chat(**{**ASKED, "max_tokens": 300, **more}).json()
                   for more in ({}, {"thinking_budget": 200}))  # fmt: skip
    assert free["choices"] == bound["choices"]
    assert free["usage"] == bound["usage"]


def test_the_longest_answer_bounds_both_together(thinker: Live) -> None:
    for length in (30, 31, 33, 34):  # 23 of reasoning and 11 to close it leave no room for more
        body = thinker.chat(**{**ASKED, "max_tokens": length, "thinking_budget": 23}).json()
        assert body["usage"]["completion_tokens"] == 23
        assert body["choices"][0]["finish_reason"] == "length"
        assert body["choices"][0]["message"]["content"] is None
    body = thinker.chat(**{**ASKED, "max_tokens": 35, "thinking_budget": 23}).json()
    assert body["usage"]["completion_tokens"] == 35


def test_a_channel_that_the_template_opens_can_be_closed_at_once() -> None:
    template = TEMPLATE + "{% if add_generation_prompt %}<think>\n{% endif %}"
    with live(speaking(SAID, template), engine=ROOM) as server:
        body = server.chat(**ASKED, thinking_budget=0).json()
    assert "reasoning_content" not in body["choices"][0]["message"]
    assert body["choices"][0]["message"]["content"].strip() == SAID[len(CLOSING) : 120].strip()
    assert body["usage"]["reasoning_tokens"] == len(CLOSING.rstrip())


def test_a_marker_that_has_begun_is_completed() -> None:
    """The budget may end inside a closing marker of several tokens."""
    said = "<think>Hm.</think>Yes, that is so, and will be."
    with live(speaking(said), engine=ROOM) as server:
        for budget in range(11, 18):
            message = server.chat(**ASKED, thinking_budget=budget).json()["choices"][0]["message"]
            assert message["reasoning_content"] == "Hm."
            assert message["content"] in said


def test_no_character_is_cut() -> None:
    with live(speaking("<think>" + "ü" * 40), engine=ROOM) as server:
        for budget, size in ((10, 2), (11, 2), (12, 3)):
            message = server.chat(**{**ASKED, "max_tokens": 40}, thinking_budget=budget).json()["choices"][0]["message"]
            assert message["reasoning_content"] == "ü" * size


def test_a_stop_string_ends_the_second_part(thinker: Live) -> None:
    body = thinker.chat(**{**ASKED, "max_tokens": 300}, thinking_budget=23, stop="forty").json()
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["choices"][0]["message"]["content"].endswith("it always was: ")
    assert "forty" in SAID


def test_every_answer_has_a_budget_of_its_own(thinker: Live) -> None:
    body = thinker.chat(**ASKED, thinking_budget=23, n=3).json()
    assert len({choice["message"]["content"] for choice in body["choices"]}) == 1
    assert [choice["message"]["reasoning_content"] for choice in body["choices"]] == [expected(23)[0]] * 3
    assert body["usage"]["prompt_tokens"] == PROMPT
    assert body["usage"]["completion_tokens"] == 3 * 120


def test_forced_tokens_keep_their_places(thinker: Live) -> None:
    forced = {"60": ord("#"), "30": ord("!")}
    body = thinker.chat(**ASKED, thinking_budget=23, diffusion={"forced": forced}).json()
    content = body["choices"][0]["message"]["content"]
    assert content.index("#") == 60 - 23 - len(CLOSING)
    assert "!" not in content, "where the channel is closed"


def test_steps_that_the_whole_answer_shares_are_refused() -> None:
    from tests.engine.talk import talking

    with live(talking("llada"), ServerSettings(reasoning_parser="think")) as server:
        answer = refused(server.chat(thinking_budget=3, diffusion={"steps": 6}))
        assert (answer["param"], "steps" in answer["message"]) == ("thinking_budget", True)
        assert server.chat(thinking_budget=3).status_code == 200


def test_a_server_that_drains_lets_answers_end() -> None:
    with live(speaking("<think>" + "a" * 540), engine=ROOM) as server, ThreadPoolExecutor() as pool:
        asked = pool.submit(lambda: server.chat(**{**ASKED, "max_tokens": 300}, thinking_budget=100))
        assert eventually(lambda: server.service.status().running == 1)
        assert server.service.drain(60)
        body = asked.result().json()
    assert body["choices"][0]["message"]["reasoning_content"] == "a" * 93
    assert body["usage"]["completion_tokens"] == 300


def eventually(true: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


@pytest.mark.parametrize(("part", "budget"), [("reasoning_content", 300), ("content", 10)])
def test_a_client_that_leaves_takes_either_part_with_it(part: str, budget: int) -> None:
    said = "<think>" + "a" * 540
    with live(speaking(said), engine=ROOM) as server:
        body = {"model": server.model, **ASKED, "max_tokens": 540, "stream": True, "thinking_budget": budget}
        with server.http() as http, http.stream("POST", "/v1/chat/completions", json=body) as stream:
            next(line for line in stream.iter_lines() if f'"{part}":"' in line and f'"{part}":""' not in line)
        assert eventually(lambda: server.service.status().running == 0)
        metrics = server.service.metrics
        assert eventually(lambda: metrics.submitted == metrics.cancelled)
        if part == "content":
            assert metrics.submitted == 2
