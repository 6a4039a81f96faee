"""Limits per client over HTTP: refusals, headers, and nothing left counted when clients vanish."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from tests.cli.scripted import scripted_model
from tests.server.live import Live, live
from tests.server.test_operations import MESSAGES, begun, eventually
from tests.server.test_refusals import refused

from anyorder.models.loaded import LoadedModel
from anyorder.server.app import ROUTES
from anyorder.server.keys import ApiKey
from anyorder.server.limiter import Lease
from anyorder.server.settings import ServerSettings

KEYS = ServerSettings(
    api_keys=("plain",),
    keys=(ApiKey(key="often", requests_per_minute=0), ApiKey(key="few", tokens_per_minute=20)),
    requests_per_minute=2,
)


def asked(server: Live, key: str, path: str = "/v1/chat/completions", **changes: Any) -> Any:
    body = {"model": server.model, "messages": [{"role": "user", "content": "7 8"}], "max_tokens": 6, **changes}
    with server.http() as http:
        return http.post(path, json=body, headers={"authorization": f"Bearer {key}"})


def test_a_client_that_asks_too_often_is_told_when_to_come_back(number_model: LoadedModel) -> None:
    with live(number_model, KEYS) as server:
        first = asked(server, "plain")
        assert first.status_code == 200
        assert first.headers["x-ratelimit-limit-requests"] == "2"
        assert first.headers["x-ratelimit-remaining-requests"] == "1"
        assert first.headers["x-ratelimit-reset-requests"].endswith("s")
        assert "x-ratelimit-limit-tokens" not in first.headers
        assert asked(server, "plain", n=0).status_code == 400
        last = asked(server, "plain")
        error = refused(last, 429)
        assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
        assert 1 <= int(last.headers["retry-after"]) <= 30
        assert last.headers["x-ratelimit-remaining-requests"] == "0"
        with pytest.raises(openai.RateLimitError):
            server.client("plain").chat.completions.create(model=server.model, messages=MESSAGES)
        assert [asked(server, "often").status_code for _ in range(5)] == [200] * 5
        assert server.client("plain").models.list().data  # looking is free


def test_tokens_are_taken_for_the_longest_answer_and_given_back(number_model: LoadedModel) -> None:
    with live(number_model, KEYS) as server:
        large = asked(server, "few", max_tokens=21)
        assert "ask for less" in refused(large, 429)["message"]
        assert large.headers["x-should-retry"] == "false"
        assert large.headers["x-ratelimit-remaining-tokens"] == "20"
        small = asked(server, "few", max_tokens=2)
        used = small.json()["usage"]["total_tokens"]
        assert int(small.headers["x-ratelimit-remaining-tokens"]) >= 20 - used
        assert int(small.headers["x-ratelimit-remaining-tokens"]) < 20


def test_streams_that_nobody_reads_any_more_do_not_count() -> None:
    with live(scripted_model(), ServerSettings(concurrent_requests=1)) as server:
        for stream in (False, True):
            body = {"model": server.model, "messages": MESSAGES, "max_tokens": 490, "stream": stream}
            with begun(server, json.dumps(body).encode()):
                assert eventually(lambda: server.service.status().running == 1)
                assert "no more than 1 may be" in refused(asked(server, "any"), 429)["message"]
            assert eventually(lambda: asked(server, "any").status_code == 200)


BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/completions": {"prompt": "abc"},
    "/v1/responses": {"input": "abc"},
    "/v1/fim/completions": {"prompt": "abc"},
    "/v1/edit/completions": {"messages": [{"role": "user", "content": "<|code_to_edit|>\na = 1\n<|/code_to_edit|>"}]},
    "/v1/apply/completions": {
        "messages": [
            {"role": "user", "content": "<|original_code|>\na = 1\n<|/original_code|>\n"
             "<|update_snippet|>\na = 2\n<|/update_snippet|>"}
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("path", [route.path for route in ROUTES if "POST" in (route.methods or ())])
def test_every_endpoint_counts_requests_and_tokens(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert path in BODIES, "give the new endpoint a request here"
    counted: list[tuple[str, int]] = []
    for name in ("reserve", "settle"):
        real = getattr(Lease, name)
        monkeypatch.setattr(
            Lease, name, lambda lease, n, name=name, real=real: counted.append((name, n)) or real(lease, n)
        )
    length = {"max_output_tokens" if path == "/v1/responses" else "max_tokens": 6}
    settings = ServerSettings(requests_per_minute=1, tokens_per_minute=100_000)
    with live(scripted_model(), settings) as server, server.http() as http:
        answer = http.post(path, json={"model": server.model, **length, **BODIES[path]})
        assert answer.status_code == 200, answer.text
        (_, reserved), (_, used) = counted
        assert [name for name, _ in counted] == ["reserve", "settle"]
        assert reserved >= used == answer.json()["usage"]["total_tokens"] > 0
        assert http.post(path, json={"model": server.model}).status_code == 429
