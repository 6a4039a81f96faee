"""How `/v1/responses` words an answer: the response object, whole or in named events."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from anyorder.channels.parts import Content
from anyorder.server.choice import Choice, run
from anyorder.server.errors import as_api_error
from anyorder.server.stream import frame
from anyorder.server.streams.answer import Delta
from anyorder.server.streams.tokens import Token
from anyorder.server.usage import usage
from anyorder.server.wire.logprobs import as_chat
from anyorder.server.wire.responses_output import Event, Output


@dataclass
class ResponsesVoice:
    """One answer, worded as it grows; whole answers are what their streams come to.

    Args:
        echo: fields of the response object that say what was asked.
        top: alternatives per token; None: no log-probabilities are wanted.
    """

    echo: dict[str, Any]
    top: int | None = None
    output: Output = field(default_factory=Output)
    sent: int = 0
    """Events so far: the number of the next one."""

    def reply(self, choices: Sequence[Choice], usage: dict[str, Any]) -> dict[str, Any]:
        """The whole answer."""
        answer = choices[0].answer
        self._grown(Delta(answer.text, tuple(choices[0].tokens), answer.finish_reason, tuple(answer.parts)))
        return self._finished(choices, usage)

    async def of(self, choices: Sequence[Choice], failed: Callable[[Exception], None]) -> AsyncGenerator[bytes]:
        """The events of a stream; a failure is told in the last one.

        Args:
            failed: told of it, for the log.
        """
        begun = self._object("in_progress")
        yield self._framed("response.created", {"response": begun})
        yield self._framed("response.in_progress", {"response": begun})
        try:
            async with aclosing(run(choices)) as steps:
                async for _, _, delta in steps:
                    for name, fields in self._grown(delta):
                        yield self._framed(name, fields)
            body = self._finished(choices, usage(choices))
            yield self._framed(f"response.{body['status']}", {"response": body})
        except Exception as error:
            failed(error)
            told = as_api_error(error)
            body = self._object("failed", error={"code": told.code or told.type, "message": told.message})
            yield self._framed("response.failed", {"response": body})

    def _grown(self, delta: Delta) -> list[Event]:
        """Events of one step; an answer without text has an empty message."""
        events: list[Event] = []
        logprobs = self._logprobs(delta.tokens)
        nothing = delta.finish_reason and not delta.parts and not self.output.items
        for part in [Content("")] if nothing else delta.parts:
            events += self.output.add(part, logprobs if isinstance(part, Content) else ())
            logprobs = [] if isinstance(part, Content) else logprobs
        if delta.finish_reason:
            events += self.output.close("incomplete" if delta.finish_reason == "length" else "completed")
        return events

    def _logprobs(self, tokens: Sequence[Token]) -> list[dict[str, Any]]:
        return [] if self.top is None else as_chat(tokens, self.top, "commit_pass")["content"]

    def _finished(self, choices: Sequence[Choice], counted: dict[str, Any]) -> dict[str, Any]:
        cut = choices[0].answer.finish_reason == "length"
        return self._object(
            "incomplete" if cut else "completed",
            completed_at=None if cut else int(time.time()),
            incomplete_details={"reason": "max_output_tokens"} if cut else None,
            output=self.output.items,
            usage=responses_usage(counted),
        )

    def _object(self, status: str, **fields: Any) -> dict[str, Any]:
        """The response object."""
        nothing = {"completed_at": None, "error": None, "incomplete_details": None, "output": [], "usage": None}
        return {**self.echo, "object": "response", "status": status, **nothing, **fields}

    def _framed(self, name: str, fields: dict[str, Any]) -> bytes:
        data = {"type": name, "sequence_number": self.sent, **fields}
        self.sent += 1
        return frame(data, name)


def responses_usage(counted: dict[str, Any]) -> dict[str, Any]:
    """Usage under the names that it has here."""
    return {
        "input_tokens": counted["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": counted["cached_input_tokens"], "cache_write_tokens": 0},
        "output_tokens": counted["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": counted["reasoning_tokens"]},
        "total_tokens": counted["total_tokens"],
        "diffusion": counted["diffusion"],
    }
