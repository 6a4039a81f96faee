"""`/v1/completions`: the request, the answer, the chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from anyorder.scoring import ScoreMode
from anyorder.server.choice import Choice
from anyorder.server.errors import bad_request, unsupported
from anyorder.server.streams.answer import Delta
from anyorder.server.streams.tokens import Token
from anyorder.server.wire.common import Common
from anyorder.server.wire.logprobs import LogprobsMode, as_completion, check_whole, score_mode
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
    logprobs_mode: LogprobsMode | None = None
    """What the log-probabilities are of; None: of the pass that committed a token, and of an echo as scored."""
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
        self._check_scores()
        return prompts

    def _check_scores(self) -> None:
        if self.scores_text and self.suffix is not None:
            raise bad_request("a text with a gap is not scored; drop `suffix` or `logprobs`", param="suffix")
        if self.scores_echo:
            check_whole("`echo` with `logprobs`", streams=self.format is not None)
        elif self.max_tokens < 1:
            raise bad_request(
                f"`max_tokens` must be at least 1, got {self.max_tokens}; 0 goes with `echo` and `logprobs`",
                param="max_tokens",
            )
        if self.max_tokens < 0:
            raise bad_request(f"`max_tokens` must be at least 0, got {self.max_tokens}", param="max_tokens")
        if self.max_tokens == 0 and self.choices > 1:
            raise bad_request("`max_tokens` is 0, so all answers are the same; use `n` 1", param="n")
        if self.max_tokens == 0 and self.logprobs_mode == "commit_pass":
            raise bad_request("`max_tokens` is 0, so no pass commits anything; drop one", param="logprobs_mode")

    @property
    def scores_echo(self) -> bool:
        """True if the prompt's log-probabilities are wanted."""
        return self.echo and self.logprobs is not None

    @property
    def score_mode(self) -> ScoreMode | None:
        """How finished text is to be scored; None: as the model does by itself, and the answer not at all."""
        return score_mode(self.logprobs_mode, wanted=self.logprobs is not None, streams=self.format is not None)

    @property
    def scores_text(self) -> bool:
        """True if any text is to be scored."""
        return self.scores_echo or self.score_mode is not None

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
    mode: LogprobsMode = "commit_pass"
    """What the log-probabilities of the answers are."""

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

    def snapshot(self, choice: Choice, text: str, progress: float, delta: Delta) -> dict[str, Any]:
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
        logs = None if self.logprobs is None else as_completion(tokens, self.logprobs, self.mode)
        return {"index": choice.index, "text": text, "finish_reason": reason, "logprobs": logs}


@dataclass(frozen=True)
class EchoVoice(CompletionVoice):
    """How completions answer that say the log-probabilities of their prompts, too."""

    scored: Sequence[Sequence[Token]] = ()
    """The tokens of each prompt."""
    echo_mode: ScoreMode = "causal"
    """What their log-probabilities are."""

    def reply(self, choices: Sequence[Choice], usage: dict[str, Any]) -> dict[str, Any]:
        """The whole answers; where none were asked for, the prompts."""
        parts = [
            self._echoed(choice.index, choice.prompt, choice.answer.text, choice.answer.finish_reason, choice.tokens)
            for choice in choices
        ]
        parts = parts or [self._echoed(prompt, prompt, "", "length", ()) for prompt in range(len(self.scored))]
        return {**self.head, "object": "text_completion", "choices": parts, "usage": usage}

    def _echoed(
        self, index: int, prompt: int, text: str, reason: str | None, tokens: Sequence[Token]
    ) -> dict[str, Any]:
        echo = self.echoes[prompt]
        behind = [replace(token, offset=token.offset + len(echo)) for token in tokens]
        mode = self.mode if tokens else self.echo_mode
        logs = as_completion([*self.scored[prompt], *behind], self.logprobs or 0, mode, self.echo_mode)
        return {"index": index, "text": echo + text, "finish_reason": reason, "logprobs": logs}
