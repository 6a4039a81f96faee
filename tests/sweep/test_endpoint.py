"""Endpoints that fail, rate-limit or talk nonsense are asked again, and what they did is told."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.bench.fake import Fake, Line, Refusal, answer, text
from tests.sweep.subjects import items, task

from anyorder.bench.client import Target
from anyorder.errors import ParameterError, SweepError
from anyorder.sweep.answer import Answer, Failed
from anyorder.sweep.endpoint import Endpoint
from anyorder.sweep.items import Gap, Item
from anyorder.sweep.judge import judged_by
from anyorder.sweep.remote import RemoteSubject, request
from anyorder.sweep.run import Plan, sweep
from anyorder.sweep.settings import named
from anyorder.sweep.summary import Limits

Script = list[Line] | Refusal
OURS: dict[str, Any] = {"tokens_per_forward": 2.0, "passes": 5, "positions": 80, "unused_share": 0.0}


@dataclass
class Server:
    """Plays one script per request, the last one for ever; pauses are noted and take no time."""

    scripts: list[Script]
    pauses: list[float] = field(default_factory=list[float])
    count: int = 0

    def __post_init__(self) -> None:
        self.fake = Fake(self._next)

    def _next(self, body: dict[str, Any]) -> Script:
        self.count += 1
        return self.scripts[min(self.count, len(self.scripts)) - 1]

    @contextmanager
    def endpoint(self, **changes: Any) -> Generator[Endpoint]:
        target = Target(url="http://fake/v1/", **changes)
        with Endpoint(
            target,
            "m",
            http=self.fake.client(),
            clock=self.fake.clock,
            sleep=self.pauses.append,
            tries=4,
            timeout_s=0.5,
        ) as made:
            yield made


GOOD = answer(0.5, 0.25)
FAILING: dict[str, tuple[Script, str]] = {
    "rate limit": (Refusal(429, '{"error": {"message": "slow\\n down"}}'), "http_429: slow down"),
    "overload": (Refusal(503, "busy"), "http_503: busy"),
    "error midway": ([(0.1, text("a")), (0.1, {"error": {"message": "died"}})], "stream_error: died"),
    "breaks off": ([(0.1, text("a")), (0.1, httpx2.ReadError("reset"))], "broken: ReadError: reset"),
    "ends midway": ([(0.1, text("a"))], "broken: the stream ended without [DONE]"),
    "no JSON": ([(0.1, "data: <html>\n\n")], "garbage: <html>"),
    "strange JSON": ([(0.1, "data: [1]\n\n")], "garbage: [1]"),
    "strange choices": ([(0.1, {"choices": ["a"]})], 'garbage: {"choices": ["a"]}'),
    "strange text": ([(0.1, text("a")), (0.1, {"choices": [{"delta": {"content": 7}}]})],
                     'garbage: {"choices": [{"delta": {"content": 7}}]}'),
    "nothing": ([(0.1, "data: [DONE]\n\n")], "garbage: a stream without any choice"),
    "no connection": ([(0.0, httpx2.ConnectError("refused"))], "connect: ConnectError: refused"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILING)
def test_what_may_pass_is_asked_for_again_and_noted(name: str) -> None:
    script, reason = FAILING[name]
    server = Server([script, script, GOOD])
    with server.endpoint() as endpoint:
        reply = endpoint.ask({"max_tokens": 3})
    assert (reply.text, reply.retries) == ("aa", (reason, reason))
    assert (reply.first_s, reply.last_s) == (0.5, 0.75)  # of the try that succeeded
    assert server.pauses == [0.5, 1.0]
    body = {"model": "m", "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 3}
    assert server.fake.bodies == [body] * 3


@pytest.mark.parametrize("name", FAILING)
def test_the_last_try_fails_with_its_reason(name: str) -> None:
    script, reason = FAILING[name]
    server = Server([script])
    with server.endpoint() as endpoint, pytest.raises(Failed) as failure:
        endpoint.ask({})
    assert str(failure.value) == reason
    assert failure.value.retries == (reason,) * 3
    assert server.count == 4


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_what_would_be_refused_again_is_asked_once(status: int) -> None:
    server = Server([Refusal(status, "no")])
    with server.endpoint() as endpoint, pytest.raises(Failed, match=f"http_{status}: no"):
        endpoint.ask({})
    assert (server.count, server.pauses) == (1, [])


@pytest.mark.parametrize(("header", "pause"), [("7", 7.0), ("1e9", 60.0), ("-1", 0.0), ("soon", 0.5), ("nan", 0.0)])
def test_a_server_says_when_it_wants_to_be_asked_again(header: str, pause: float) -> None:
    server = Server([Refusal(429, headers={"retry-after": header}), GOOD])
    with server.endpoint() as endpoint:
        endpoint.ask({})
    assert server.pauses == [pause]


def setting(**params: Any):
    return named([params], {})[0]


def item(prompt: Any = "question") -> Item:
    return Item(id="one", prompt=prompt, text="question", references=("aa",))


def test_a_setting_becomes_a_request() -> None:
    way = named([{"threshold": 0.9, "temperature": 0.7, "max_new_tokens": 64, "seed": 5, "logit_bias": {7: 1.0},
                  "request": {"reasoning_effort": "low"}}], {})[0]  # fmt: skip
    messages = [{"role": "user", "content": "question"}]
    assert request(item(), way, 3, surface="chat") == {
        "messages": messages, "temperature": 0.7, "max_tokens": 64, "seed": 8, "logit_bias": {7: 1.0},
        "diffusion": {"threshold": 0.9}, "reasoning_effort": "low",
    }  # fmt: skip
    assert request(item(messages), setting(), 3, surface="chat") == {"messages": messages, "temperature": 0}
    assert request(item(), setting(top_k=5), 0, surface="completions") == {
        "prompt": "question", "temperature": 0, "top_k": 5,
    }  # fmt: skip


def test_an_answer_has_the_figures_that_the_server_reports() -> None:
    with Server([answer(0.5, 0.25, tokens=9, **OURS)]).endpoint() as endpoint:
        found = RemoteSubject(endpoint).answer(item(), setting(threshold=0.9), 0)
    assert found == Answer(text="aa", tokens=10, passes=5, first_s=0.5, last_s=0.75, memory_bytes=None)
    with Server([answer(0.5, tokens=9)]).endpoint() as endpoint:
        found = RemoteSubject(endpoint).answer(item(), setting(), 0)
    assert (found.tokens, found.passes) == (9, None)


def test_an_endpoint_that_may_ignore_a_parameter_is_not_measured_with_it() -> None:
    with Server([GOOD]).endpoint() as endpoint, pytest.raises(ParameterError, match="whether it honours threshold"):
        RemoteSubject(endpoint).answer(item(), setting(threshold=0.9), 0)


@pytest.mark.parametrize(
    ("prompt", "surface", "message"),
    [
        ([1, 2], "chat", "holes or token ids"),
        (["a", Gap("b")], "chat", "holes or token ids"),
        ([{"role": "user", "content": "a"}], "completions", "use --surface chat"),
    ],
)
def test_prompts_that_an_endpoint_does_not_take_are_refused(prompt: Any, surface: Any, message: str) -> None:
    with Server([GOOD]).endpoint(surface=surface) as endpoint, pytest.raises(ParameterError, match=message):
        RemoteSubject(endpoint).check(item(prompt), setting())


@pytest.mark.parametrize(
    ("reply", "score"), [("7", 0.7), (" 10.", 1.0), ("**0**", 0.0), ("3/10", 0.3), ("11", None), ("Good: 7", None)]
)
def test_a_judge_marks_from_nought_to_ten(reply: str, score: float | None) -> None:
    server = Server([[(0.1, text(reply)), (0.0, "data: [DONE]\n\n")]])
    given = Answer(text="my answer", tokens=1, passes=1, first_s=0, last_s=0, memory_bytes=None)
    with server.endpoint() as endpoint:
        if score is None:
            with pytest.raises(Failed, match=r"judge: garbage: .* is no mark from 0 to 10"):
                judged_by(endpoint)(item(), given, None)
            return
        assert judged_by(endpoint)(item(), given, None) == score
    (body,) = server.fake.bodies
    assert all(part in body["messages"][0]["content"] for part in ("question", "my answer", "aa"))
    assert body["temperature"] == 0


def remote_plan(endpoint: Endpoint, count: int, **changes: Any) -> Plan:
    return Plan(
        task=task(count, items=[Item(id=i.id, prompt=i.prompt, text=i.text, references=("aa",)) for i in items(count)]),
        subject=RemoteSubject(endpoint),
        settings=named([{"threshold": 0.9}, {"threshold": 0.5}], {}),
        limits=Limits(budget=0.1, confidence=0.9),
        full=True,
        **changes,
    )


def test_a_bad_day_of_a_server_is_on_the_page_and_in_the_mean(tmp_path: Path) -> None:
    """Every third answer fails midway, every fifth for good; means are over all prompts."""
    good = answer(0.1, 0.1, tokens=9, **OURS)
    scripts: list[Script] = [good, FAILING["ends midway"][0], good, FAILING["no JSON"][0], Refusal(400, "cannot"), good]
    server = Server([script for _ in range(10) for script in scripts])
    with server.endpoint() as endpoint:
        summary = sweep(remote_plan(endpoint, 10), tmp_path)
    assert sum(row.answered + row.failed for row in summary.rows) == 20
    assert (failed := sum(row.failed for row in summary.rows)) == 5
    right = sum(row.quality.value * row.quality.documents for row in summary.rows if row.quality)
    assert right == 20 - failed
    assert sum(row.retried for row in summary.rows) == 5
    page = (tmp_path / "sweep.html").read_text("utf-8")
    for reason in ("http_400: cannot", "broken: the stream ended without [DONE]", "garbage: &lt;html&gt;"):
        assert reason in page


def test_a_server_that_is_gone_ends_the_sweep(tmp_path: Path) -> None:
    server = Server([answer(0.1, 0.1, tokens=9, **OURS)] * 3 + [FAILING["no connection"][0]])
    with server.endpoint() as endpoint, pytest.raises(SweepError, match="connect: ConnectError: refused"):
        sweep(remote_plan(endpoint, 50), tmp_path)
    assert "8 answers failed" in (tmp_path / "sweep.html").read_text("utf-8")
