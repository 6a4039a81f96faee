"""One request: its times are those that the server took, and no failure is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.bench.fake import Fake, Line, Refusal, answer, text

from anyorder.bench.prompts import Ask
from anyorder.bench.records import Record

ASK = Ask(index=7, body={"model": "m"})


def sent(script: Any, *, due: float | None = None, timeout_s: float = 60.0) -> Record:
    fake = Fake(lambda body: script)
    sender = fake.sender(timeout_s)
    fake.now += 5.0
    return asyncio.run(sender.send(ASK, due=fake.now if due is None else due, load="l", session=2))


def test_times_count_from_when_the_request_was_due() -> None:
    script = answer(0.5, 0.25, 2.0, tokens=9, tokens_per_forward=1.5, passes=6, positions=80, unused_share=0.25)
    record = sent(script, due=104.0)
    assert record == Record(
        load="l", index=7, session=2, due_s=4.0, sent_s=5.0, first_s=1.5, last_s=3.75, gaps_s=[0.25, 2.0],
        finish_reason="stop", prompt_tokens=10, cached_tokens=4, tokens=9, tokens_per_forward=1.5, passes=6,
        positions=80, unused_share=0.25,
    )  # fmt: skip


def test_a_role_is_no_text() -> None:
    """Servers that open with an empty chunk look no faster than they are."""
    role: Line = (0.25, {"choices": [{"delta": {"role": "assistant", "content": ""}}]})
    record = sent([role, (0.0, ": ping\n\n"), *answer(1.0)])
    assert record.first_s == 1.25
    assert record.gaps_s == []


@pytest.mark.parametrize(
    "choice",
    [{"text": "a"}, {"delta": {"reasoning_content": "a"}}, {"delta": {"tool_calls": [{"index": 0}]}}],
)
def test_other_kinds_of_text_count(choice: dict[str, Any]) -> None:
    assert sent([(1.0, {"choices": [choice]}), *answer(1.0)]).first_s == 1.0


def test_an_answer_without_text_is_an_answer() -> None:
    record = sent(answer(tokens=0))
    assert (record.error, record.first_s, record.tokens, record.last_s) == (None, None, 0, 0.0)


def test_a_server_without_usage_leaves_it_open() -> None:
    record = sent([(1.0, text("a")), (0.0, "data: [DONE]\n\n")])
    assert (record.error, record.tokens, record.tokens_per_forward, record.cached_tokens) == (None, None, None, None)


@pytest.mark.parametrize(
    ("script", "kind", "detail"),
    [
        (Refusal(503, '{"error": {"message": "full"}}'), "http_503", "full"),
        (Refusal(502, "<html>"), "http_502", "<html>"),
        ([(1.0, text("a")), (1.0, {"error": {"message": "it broke"}})], "stream_error", "it broke"),
        ([(1.0, text("a"))], "broken", "without [DONE]"),
        ([(1.0, text("a")), (1.0, httpx2.ReadError("gone"))], "broken", "ReadError: gone"),
        ([(1.0, httpx2.ConnectError("refused"))], "connect", "ConnectError: refused"),
        ([(1.0, "data: <html>\n\n")], "garbage", "<html>"),
        ([(1.0, "data: 3\n\n")], "garbage", "3"),
    ],
)
def test_failures_are_told_apart(script: Any, kind: str, detail: str) -> None:
    record = sent(script)
    assert record.error == kind
    assert detail in record.detail
    assert record.last_s == (sum(line[0] for line in script) if isinstance(script, list) else 0)


def test_a_request_has_an_end() -> None:
    class Never(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"data: {}\n\n"
            await asyncio.Event().wait()

    fake = Fake(lambda body: [])
    sender = fake.sender(0.01)
    sender.http = httpx2.AsyncClient(
        base_url="http://fake", transport=httpx2.MockTransport(lambda request: httpx2.Response(200, stream=Never()))
    )
    record = asyncio.run(sender.send(ASK, due=fake.now, load="l", session=0))
    assert (record.error, record.detail) == ("timeout", "not answered within 0.01 s")
