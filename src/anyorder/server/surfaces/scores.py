"""Log-probabilities of finished text: of prompts that are echoed, and of answers behind their prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyorder.errors import ParameterError
from anyorder.scoring import ScoreMode, ScoreParams, resolve_scoring
from anyorder.server.backend import Ask, Backend
from anyorder.server.choice import Choice, collect
from anyorder.server.endpoint import Record, backend_of
from anyorder.server.streams.tokens import Token, scored_tokens


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text to be scored."""

    prompt: int
    """Which prompt of the request it is, or goes on from."""
    ids: Sequence[int]
    start: int = 1
    """First token whose log-probability is wanted."""


@dataclass(frozen=True)
class Scored:
    """What was found."""

    mode: ScoreMode
    tokens: list[Token]
    """All of the text's."""


def check_mode(backend: Backend, mode: ScoreMode | None) -> None:
    """Refuse a way of scoring that the model does not have, before anything is computed; None: none is named."""
    if mode is None:
        return
    try:
        resolve_scoring(ScoreParams(mode=mode), backend.model)
    except ParameterError as error:
        raise ParameterError(str(error), param="logprobs_mode") from None


async def score(record: Record, ask: Ask, texts: Sequence[Text], mode: ScoreMode | None, top: int) -> list[Scored]:
    """Score texts on the terms of a request, and wait for it.

    Args:
        mode: checked; None: the model's own.
        top: alternatives per token.
    """
    backend = backend_of(record.request)
    made: list[Choice] = []
    try:
        for text in texts:
            params = ScoreParams(mode=mode, top_logprobs=top, start=text.start)
            made.append(await backend.score(ask, text.ids, params, prompt=text.prompt, index=len(made)))
    except BaseException:
        for choice in made:
            choice.ticket.cancel()
        raise
    record.choices = [*record.choices, *made]
    await collect(made)
    found = [choice.scores.result() for choice in made if choice.scores is not None]
    return [Scored(f.mode, scored_tokens(f, backend.decode, backend.spell, backend.byte_ids)) for f in found]


async def answered_and_scored(record: Record, ask: Ask, answers: Sequence[Choice], mode: ScoreMode, top: int) -> None:
    """Wait for answers, and give their tokens the log-probabilities that they have behind their prompts."""
    record.choices = [*record.choices, *answers]
    await collect(answers)
    await score_answers(record, ask, answers, mode, top)


async def score_answers(record: Record, ask: Ask, answers: Sequence[Choice], mode: ScoreMode, top: int) -> None:
    """Give the tokens of finished answers the log-probabilities that they have behind their prompts."""
    texts = [_whole(choice) for choice in answers]
    for choice, text, scored in zip(answers, texts, await score(record, ask, texts, mode, top), strict=True):
        pairs = zip(choice.tokens, scored.tokens[text.start :], strict=True)
        choice.tokens = [replace(own, logprob=s.logprob, alternatives=s.alternatives) for own, s in pairs]


def _whole(choice: Choice) -> Text:
    fold = choice.answer.fold
    prompt = fold.ids[: fold.answer_start]
    return Text(prompt=choice.prompt, ids=[*prompt, *(token.id for token in choice.tokens)], start=len(prompt))
