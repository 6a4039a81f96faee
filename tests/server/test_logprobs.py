"""Log-probabilities on the wire: of what was generated and of what was given, equal to those of Python."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from tests.engine.talk import talking
from tests.server.live import Live, live
from tests.server.test_refusals import refused

import anyorder
from anyorder import DecodeParams, Generation
from anyorder.models.loaded import LoadedModel
from anyorder.scoring import Scores
from anyorder.server.keys import ApiKey
from anyorder.server.settings import ServerSettings

MESSAGES = [{"role": "user", "content": "7 8 9"}]
SAMPLED: dict[str, Any] = {"max_tokens": 9, "temperature": 1.0, "seed": 7, "ignore_eos": True}


def spelt(model: LoadedModel, id: int) -> str:
    assert model.tokenizer is not None
    return model.tokenizer.decode([id]) or f"<{id}>"


def generated(model: LoadedModel, prompt: Any, top: int = 3) -> Generation:
    params = DecodeParams(max_new_tokens=9, temperature=1.0, seed=7, stop_ids=(), top_logprobs=top)
    return anyorder.generate(model, prompt, params)


def logs(value: float) -> Any:
    return pytest.approx(math.log(value), abs=1e-4)


def test_the_likeliest_tokens_of_a_chat_are_those_of_python(numbers: Live, number_model: LoadedModel) -> None:
    """At a temperature, where the committed token need not be among them."""
    answer = numbers.chat(messages=MESSAGES, **SAMPLED, logprobs=True, top_logprobs=3).json()["choices"][0]
    entries = answer["logprobs"]["content"]
    expected = generated(number_model, MESSAGES)
    assert len(entries) == len(expected.trace) == 9
    for entry, slot in zip(entries, expected.trace, strict=True):
        assert (entry["token"], entry["logprob"]) == (spelt(number_model, slot.id), logs(slot.confidence))
        assert [best["token"] for best in entry["top_logprobs"]] == [
            spelt(number_model, best.id) for best in slot.alternatives
        ]
        assert [best["logprob"] for best in entry["top_logprobs"]] == [
            logs(best.probability) for best in slot.alternatives
        ]
    assert any(entry["logprob"] < entry["top_logprobs"][-1]["logprob"] for entry in entries)


def test_a_stream_says_the_same(numbers: Live) -> None:
    asked: dict[str, Any] = {"model": numbers.model, "messages": MESSAGES, "logprobs": True, "top_logprobs": 2}
    asked |= {name: SAMPLED[name] for name in ("max_tokens", "temperature", "seed")}
    client = numbers.client()
    whole = client.chat.completions.create(**asked).choices[0].logprobs
    assert whole is not None
    pieces = [chunk.choices[0].logprobs for chunk in client.chat.completions.create(**asked, stream=True)]
    streamed = [entry for piece in pieces if piece is not None for entry in piece.content or []]
    assert streamed == whole.content
    assert all(len(entry.top_logprobs) == 2 for entry in streamed)


def test_a_completion_lists_the_token_itself_besides_the_likeliest(numbers: Live, number_model: LoadedModel) -> None:
    client = numbers.client()
    answer = client.completions.create(
        model=numbers.model,
        prompt="7 8",
        max_tokens=9,
        temperature=1,
        seed=7,
        logprobs=3,
        extra_body={"ignore_eos": True},
    )
    told = answer.choices[0].logprobs
    assert told is not None
    assert told.tokens is not None
    assert told.token_logprobs is not None
    assert told.top_logprobs is not None
    expected = generated(number_model, [7, 8])
    assert told.tokens == [spelt(number_model, slot.id) for slot in expected.trace]
    for own, best, slot in zip(told.token_logprobs, told.top_logprobs, expected.trace, strict=True):
        assert own == logs(slot.confidence)
        named = {spelt(number_model, other.id): logs(other.probability) for other in slot.alternatives}
        assert best == {**named, spelt(number_model, slot.id): logs(slot.confidence)}
        assert best[spelt(number_model, slot.id)] == own, "the same number, to the last bit: clients compare them"
    assert any(len(best) == 4 for best in told.top_logprobs)


def test_no_alternatives_are_listed_where_none_are_wanted(numbers: Live) -> None:
    entries = numbers.chat(messages=MESSAGES, max_tokens=3, logprobs=True).json()["choices"][0]["logprobs"]["content"]
    assert [entry["top_logprobs"] for entry in entries] == [[]] * len(entries)
    told = numbers.client().completions.create(model=numbers.model, prompt="7", max_tokens=3, logprobs=0)
    assert told.choices[0].logprobs is not None
    assert told.choices[0].logprobs.top_logprobs is None


# ---------------------------------------------------------------- given text


def completion(live: Live, prompt: Any, **changes: Any) -> Any:
    with live.http() as http:
        return http.post("/v1/completions", json={"model": live.model, "prompt": prompt, **changes})


def assert_lists(told: dict[str, Any], scores: Scores, model: LoadedModel, *, top: int) -> None:
    """The lists of a completion begin with what Python says of the text."""
    for n, token in enumerate(scores.tokens):
        assert told["tokens"][n] == spelt(model, token.id)
        if token.logprob is None:
            assert (told["token_logprobs"][n], told["top_logprobs"][n]) == (None, None)
            continue
        assert told["token_logprobs"][n] == pytest.approx(token.logprob, abs=1e-6)
        best = {spelt(model, other.id): pytest.approx(other.logprob, abs=1e-6) for other in token.alternatives[:top]}
        assert told["top_logprobs"][n] == {**best, spelt(model, token.id): pytest.approx(token.logprob, abs=1e-6)}


@pytest.mark.parametrize("mode", [None, "left_to_right"])
def test_an_echo_is_scored_as_in_python(numbers: Live, number_model: LoadedModel, mode: Any) -> None:
    prompts = [[7, 8, 9, 10, 11], [12, 13, 7]]
    answer = completion(numbers, prompts, echo=True, logprobs=2, max_tokens=0, logprobs_mode=mode).json()
    assert [(choice["index"], choice["text"]) for choice in answer["choices"]] == [(0, "7 8 9 10 11"), (1, "12 13 7")]
    for prompt, choice in zip(prompts, answer["choices"], strict=True):
        scores = anyorder.score(number_model, prompt, mode=mode, top_logprobs=2)
        assert_lists(choice["logprobs"], scores, number_model, top=2)
        assert choice["logprobs"]["logprobs_mode"] == scores.mode == (mode or "pseudo_likelihood")
        assert choice["finish_reason"] == "length"
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (8, 0, 8)
    assert usage["diffusion"]["passes"] == 0
    assert usage["scoring"] == {"passes": 2, "positions": usage["scoring"]["positions"], "tokens": 6}


def test_an_answer_goes_on_in_the_same_lists(letters: Live) -> None:
    """Bytes of one character are tokens of their own, all of them at the character's place."""
    answer = completion(letters, "aé", echo=True, logprobs=1, max_tokens=4).json()
    (choice,) = answer["choices"]
    told = choice["logprobs"]
    assert choice["text"] == "aé" + "llo "
    assert told["tokens"] == ["a", "\ufffd", "\ufffd", *"llo "]
    assert told["text_offset"] == [0, 1, 1, 2, 3, 4, 5]
    assert told["token_logprobs"][0] is None
    assert told["token_logprobs"][3:] == pytest.approx([0.0] * 4, abs=1e-5)
    assert (told["logprobs_mode"], told["echo_logprobs_mode"]) == ("commit_pass", "causal")
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (3, 4)


def test_a_stop_token_that_ends_the_answer_at_once_is_listed(numbers: Live) -> None:
    """lm-eval takes the last entry for the one token that it asked for; without it, it would lose one of the text's."""
    (choice,) = completion(numbers, "7 8", echo=True, logprobs=1, max_tokens=1, logit_bias={"2": 100}).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("7 8", "stop")
    assert choice["logprobs"]["tokens"] == ["7", "8", "<2>"]
    assert choice["logprobs"]["token_logprobs"][2] == pytest.approx(0, abs=1e-5)
    assert choice["logprobs"]["text_offset"][2] == 3


def test_several_answers_share_the_scores_of_their_prompt(numbers: Live) -> None:
    asked: dict[str, Any] = {"echo": True, "logprobs": 0, "max_tokens": 3, "n": 2, "temperature": 1, "seed": 3}
    answer = completion(numbers, ["7 8 9", "9 8"], ignore_eos=True, **asked).json()
    lists = [choice["logprobs"]["token_logprobs"] for choice in answer["choices"]]
    assert [len(values) for values in lists] == [6, 6, 5, 5]
    assert lists[0][:3] == lists[1][:3]
    assert lists[0][3:] != lists[1][3:]
    assert answer["usage"]["scoring"]["tokens"] == 3
    assert answer["usage"]["prompt_tokens"] == 5


@pytest.mark.parametrize("echo", [False, True])
def test_the_tokens_of_an_answer_are_scored_behind_its_prompt(
    numbers: Live, number_model: LoadedModel, echo: bool
) -> None:
    asked: dict[str, Any] = {"max_tokens": 6, "temperature": 1, "seed": 5, "ignore_eos": True, "logprobs": 2}
    told = completion(numbers, [7, 8], **asked, echo=echo, logprobs_mode="pseudo_likelihood").json()["choices"][0]
    plain = completion(numbers, [7, 8], **asked).json()["choices"][0]
    ids = [int(name.strip("<>")) for name in plain["logprobs"]["tokens"]]
    scores = anyorder.score(number_model, [7, 8, *ids], mode="pseudo_likelihood", start=2, top_logprobs=2)
    before = anyorder.score(number_model, [7, 8], top_logprobs=2).tokens if echo else ()
    assert_lists(told["logprobs"], replace(scores, tokens=(*before, *scores.tokens[2:])), number_model, top=2)
    assert told["logprobs"]["logprobs_mode"] == "pseudo_likelihood"
    assert plain["logprobs"]["logprobs_mode"] == "commit_pass"


def test_a_chat_is_scored_when_it_is_complete() -> None:
    """With a causal mode beside the one that decodes: block by block, and read from left to right afterwards."""
    model = talking("fast_dllm_v2")
    asked: dict[str, Any] = {"messages": MESSAGES, **SAMPLED, "logprobs": True, "top_logprobs": 2, "n": 2}
    with live(model) as server:
        answer = server.chat(**asked, logprobs_mode="causal").json()
        plain = server.chat(**asked).json()
    prompt = anyorder.prompt.encode_prompt(model, MESSAGES)
    for own, other in zip(answer["choices"], plain["choices"], strict=True):
        assert own["message"] == other["message"]
        entries = own["logprobs"]["content"]
        ids = [int(entry["token"].strip("<>")) for entry in entries]
        scores = anyorder.score(model, [*prompt, *ids], mode="causal", start=len(prompt), top_logprobs=2)
        assert [entry["logprob"] for entry in entries] == pytest.approx(scores.logprobs[len(prompt) :], abs=1e-6)
        assert [len(entry["top_logprobs"]) for entry in entries] == [2] * len(ids)
        assert own["logprobs"]["logprobs_mode"] == "causal"
        assert own["logprobs"]["content"] != other["logprobs"]["content"]
    assert answer["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"] == 18
    assert answer["usage"]["scoring"]["tokens"] == 18


def test_a_stop_string_leaves_no_token_unscored(letters: Live) -> None:
    asked: dict[str, Any] = {"max_tokens": 9, "stop": "o w", "logprobs": 1, "logprobs_mode": "causal"}
    (choice,) = completion(letters, "abc", **asked).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("ll", "stop")
    assert choice["logprobs"]["tokens"] == ["l", "l"]
    assert choice["logprobs"]["token_logprobs"] == pytest.approx([0, 0], abs=1e-5)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"logprobs_mode": "causal"}, "logprobs_mode"),
    ({"logprobs": 1, "logprobs_mode": "casual"}, "logprobs_mode"),
    ({"logprobs": 1, "logprobs_mode": "causal"}, "logprobs_mode"),
    ({"logprobs": 1, "logprobs_mode": "pseudo_likelihood", "stream": True}, "stream"),
    ({"logprobs": 0, "logprobs_mode": "monte_carlo"}, "logprobs_mode"),
    ({"logprobs": 1, "echo": True, "stream": True}, "stream"),
    ({"logprobs": 1, "echo": True, "suffix": " 9"}, "suffix"),
    ({"logprobs": 1, "echo": True, "max_tokens": -1}, "max_tokens"),
    ({"echo": True, "max_tokens": 0}, "max_tokens"),
    ({"logprobs": 1, "max_tokens": 0}, "max_tokens"),
    ({"logprobs": 1, "echo": True, "max_tokens": 0, "n": 2}, "n"),
    ({"logprobs": 1, "echo": True, "max_tokens": 0, "logprobs_mode": "commit_pass"}, "logprobs_mode"),
]


@pytest.mark.parametrize(("changes", "param"), WRONG, ids=lambda value: str(value)[:70])
def test_what_cannot_be_scored_is_refused_by_name(numbers: Live, changes: dict[str, Any], param: str) -> None:
    response = completion(numbers, "7 8", **changes)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param
    assert numbers.service.status().running == 0


def test_a_chat_without_log_probabilities_has_no_mode_of_them(numbers: Live) -> None:
    for changes in ({"logprobs_mode": "causal"}, {"logprobs": True, "logprobs_mode": "causal"}):
        response = numbers.chat(**changes)
        assert (response.status_code, response.json()["error"]["param"]) == (400, "logprobs_mode")


def test_scored_tokens_count_against_the_limits_of_a_client(number_model: LoadedModel) -> None:
    limited = ServerSettings(keys=(ApiKey(key="few", tokens_per_minute=10),))
    with live(number_model, limited) as server, server.http(headers={"authorization": "Bearer few"}) as http:
        body = {"model": server.model, "prompt": [7] * 8, "echo": True, "logprobs": 1, "max_tokens": 0}
        first, second = (http.post("/v1/completions", json=body) for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 429)
    assert first.json()["usage"]["total_tokens"] == 8


def test_a_client_that_leaves_takes_its_scores_with_it() -> None:
    with live(talking("llada")) as server:
        body = {"model": server.model, "prompt": [[7, 8, 9] * 28] * 8, "echo": True, "logprobs": 1, "max_tokens": 0}
        with server.http() as http, pytest.raises(httpx2.TimeoutException):
            http.post("/v1/completions", json=body, timeout=0.1)
        deadline = time.monotonic() + 20
        while (status := server.service.status()).running + status.queued and time.monotonic() < deadline:
            time.sleep(0.01)
        metrics = server.service.status().metrics
        assert metrics.submitted == metrics.cancelled + metrics.finished
        assert metrics.scored < 8 * 83


def test_a_model_without_scores_completes_all_the_same() -> None:
    """WeDLM has none, which once failed every request, scored or not."""
    with live(talking("wedlm")) as server, server.http() as http:
        body = {"model": server.model, "prompt": [7, 8, 9], "max_tokens": 4}
        assert http.post("/v1/completions", json=body).status_code == 200
        answer = refused(http.post("/v1/completions", json={**body, "echo": True, "logprobs": 1}))
        assert "has no score" in answer["message"]
