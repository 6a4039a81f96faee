"""`/v1/completions`: the request, the answer, the chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from anyorder.server.choice import Choice
from anyorder.server.errors import bad_request, unsupported
from anyorder.server.streams.answer import Delta
from anyorder.server.streams.tokens import Token
from anyorder.server.wire.common import Common
from anyorder.server.wire.logprobs import as_completion
from anyorder.server.wire.mercury import MAX_STOPS, NOTHING_FOLLOWS

PREFIX = "cmpl"
DEFAULT_MAX_TOKENS = 16  # OpenAI's
MAX_PROMPTS = 64

Prompt = str | list[int]


class CompletionRequest(Common):
    """Texts to continue, or to fill."""

    max_stops = MAX_STOPS

    prompt: str | list[int] | list[str] | list[list[int]]
    suffix: str | None = None
    max_tokens: int = DEFAULT_MAX_TOKENS
    echo: bool = False
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    best_of: int | None = None

    @property
    def text_behind(self) -> str | None:
        """What stands behind the answer, if anything does."""
        return None if self.suffix == NOTHING_FOLLOWS else self.suffix

    def prompts(self) -> list[Prompt]:
        """One prompt or many, as a list.

        Raises:
            ApiError: there is none, there are too many, or other parameters do not go with them.
        """
        given = self.prompt
        many = isinstance(given, list) and not all(isinstance(part, int) for part in given)
        prompts: list[Any] = list(given) if many else [given]
        if not all(prompts) and self.text_behind is None:
            raise bad_request("a prompt is empty; give at least one token of text", param="prompt")
        if len(prompts) > MAX_PROMPTS:
            raise bad_request(f"at most {MAX_PROMPTS} prompts, got {len(prompts)}", param="prompt")
        if self.best_of not in (None, self.choices):
            raise unsupported("best_of", "`best_of`: every answer is returned, none is picked; use `n`")
        if self.suffix == "":
            raise bad_request("`suffix` is empty; leave it out", param="suffix")
        if self.suffix is not None and self.max_tokens < 1:
            raise bad_request("`max_tokens` is the number of tokens before the suffix; at least 1", param="max_tokens")
        if self.echo and self.logprobs is not None:
            raise unsupported("echo", "`echo` with `logprobs`: prompts are not scored yet; drop one")
        return prompts

    @property
    def top(self) -> int:
        """How many alternatives to list per token."""
        return self.logprobs or 0


@dataclass(frozen=True)
class CompletionVoice:
    """How completions answer."""

    head: dict[str, Any]
    logprobs: int | None = None
    echoes: Sequence[str] = ()
    """Text of each prompt, where it is to stand before the answer."""

    def reply(self, choices: Sequence[Choice], usage: dict[str, Any]) -> dict[str, Any]:
        """The whole answer."""
        parts = [
            self._part(choice, self._echo(choice) + choice.answer.text, choice.answer.finish_reason, choice.tokens)
            for choice in choices
        ]
        return {**self.head, "object": "text_completion", "choices": parts, "usage": usage}

    def chunk(self, choice: Choice, delta: Delta, *, opens: bool) -> dict[str, Any]:
        """One piece of an answer."""
        text = (self._echo(choice) if opens else "") + delta.text
        part = self._part(choice, text, delta.finish_reason, delta.tokens)
        return {**self.head, "object": "text_completion", "choices": [part]}

    def snapshot(self, choice: Choice, text: str, progress: float) -> dict[str, Any]:
        """The whole answer as it stands."""
        part = self._part(choice, self._echo(choice) + text, choice.answer.finish_reason, ())
        meta = {"diffusion_content": True, "diffusion_progress": progress}
        return {**self.head, "object": "text_completion", "choices": [part], "diffusion_meta": meta}

    def last_chunk(self, usage: dict[str, Any]) -> dict[str, Any]:
        """Nothing but the usage."""
        return {**self.head, "object": "text_completion", "choices": [], "usage": usage}

    def _echo(self, choice: Choice) -> str:
        return self.echoes[choice.prompt] if self.echoes else ""

    def _part(self, choice: Choice, text: str, reason: str | None, tokens: Sequence[Token]) -> dict[str, Any]:
        logs = None if self.logprobs is None else as_completion(tokens, self.logprobs, "commit_pass")
        return {"index": choice.index, "text": text, "finish_reason": reason, "logprobs": logs}
