"""Log-probabilities as chats and as completions say them, and what they are of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from anyorder.scoring import ScoreMode
from anyorder.server.errors import bad_request, unsupported
from anyorder.server.streams.text import UNDECODED
from anyorder.server.streams.tokens import Alternative, Token

LogprobsMode = Literal["commit_pass"] | ScoreMode
"""`commit_pass`: at the pass that decided the token; the others score the finished text, see `anyorder.scoring`."""
LOWEST = -9999.0  # OpenAI's number for a probability of 0


def score_mode(mode: LogprobsMode | None, *, wanted: bool, streams: bool) -> ScoreMode | None:
    """How finished text is to be scored; None: not at all.

    Args:
        wanted: the request asks for log-probabilities.
        streams: the answer is streamed, and finished text comes too late.
    Raises:
        ApiError: parameters contradict each other.
    """
    if mode is not None and not wanted:
        raise bad_request("`logprobs_mode` goes with `logprobs`", param="logprobs_mode")
    if mode is None or mode == "commit_pass":
        return None
    if mode == "monte_carlo":
        raise unsupported("logprobs_mode", "`logprobs_mode` 'monte_carlo' is of texts, not of tokens; use another one")
    check_whole(f"`logprobs_mode` {mode!r}", streams=streams)
    return mode


def check_whole(what: str, *, streams: bool) -> None:
    """Refuse to stream what is only known of a text that is complete."""
    if streams:
        raise bad_request(f"{what} scores complete text, which a stream is not; drop one", param="stream")


def checked_top(top: int | None, param: str, *, wanted: bool) -> int:
    """How many alternatives to list per token."""
    if top is not None and not wanted:
        raise bad_request(f"`{param}` goes with `logprobs`: true", param=param)
    return top or 0


def number(value: float) -> float:
    """A logarithm that JSON can hold."""
    return max(value, LOWEST)


def as_chat(tokens: Sequence[Token], top: int, mode: LogprobsMode) -> dict[str, Any]:
    """One entry per token; `logprobs_mode` says what the numbers are."""
    return {"content": [_entry(token, top) for token in tokens], "refusal": None, "logprobs_mode": mode}


def _entry(token: Token, top: int) -> dict[str, Any]:
    assert token.logprob is not None, "every token of an answer was decided"
    best = [_named(other.text, other.logprob) for other in token.alternatives[:top]]
    return {**_named(token.text, token.logprob), "top_logprobs": best}


def _named(text: str, logprob: float) -> dict[str, Any]:
    whole = UNDECODED not in text  # else it is a part of a character, whose bytes are not known here
    return {"token": text, "logprob": number(logprob), "bytes": list(text.encode()) if whole else None}


def as_completion(
    tokens: Sequence[Token], top: int, mode: LogprobsMode, echo_mode: ScoreMode | None = None
) -> dict[str, Any]:
    """Parallel lists; `logprobs_mode` says what the numbers are, `echo_logprobs_mode` what those of an echo are."""
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [None if token.logprob is None else number(token.logprob) for token in tokens],
        "top_logprobs": [_by_text(token, top) for token in tokens] if top else None,
        "text_offset": [token.offset for token in tokens],
        "logprobs_mode": mode,
        **({"echo_logprobs_mode": echo_mode} if echo_mode else {}),
    }


def _by_text(token: Token, top: int) -> dict[str, float] | None:
    """The likeliest tokens, and the token itself; of two with the same text the likelier one."""
    if token.logprob is None:
        return None
    listed = (*token.alternatives[:top], Alternative(token.text, token.logprob))
    found: dict[str, float] = {}
    for each in listed:
        found.setdefault(each.text, number(each.logprob))
    return found
