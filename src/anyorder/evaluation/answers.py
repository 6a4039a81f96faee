"""What a task gets of a written text: nothing before the end of the reasoning, nothing from a stop on.

The rules are those of lm-eval's own models, whose `think_end_token` this is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyorder.errors import ParameterError

if TYPE_CHECKING:
    from anyorder.generation import Generation
    from anyorder.models.tokenizer import Tokenizer

ThinkEnd = str | int | None
"""What ends the reasoning: a text, a token's string or its id; None: there is none."""


def check_think_end(think_end: ThinkEnd, tokenizer: Tokenizer) -> ThinkEnd:
    """The same, with the id instead of the string of a control token, which no text of an answer shows.

    Raises:
        ParameterError: it is no text and no token.
    """
    if think_end is None:
        return None
    if isinstance(think_end, str) and think_end:
        token = tokenizer.token_id(think_end)
        return token if token is not None and tokenizer.is_control(token) else think_end
    if isinstance(think_end, int) and not isinstance(think_end, bool) and 0 <= think_end < len(tokenizer):
        return think_end
    raise ParameterError(
        f"think_end_token must be a text, or a token id below {len(tokenizer)}, got {think_end!r}",
        param="think_end_token",
    )


def graded(answer: Generation, tokenizer: Tokenizer, stops: str | Sequence[str] | None, think_end: ThinkEnd) -> str:
    """The part of an answer that is graded. One in which the reasoning never ends is graded whole.

    Args:
        stops: texts that end it.
        think_end: from `check_think_end`; a token is looked for before the stops, a text after them. The last
            one counts.
    """
    if isinstance(think_end, int):
        behind = len(answer.ids) - answer.ids[::-1].index(think_end) if think_end in answer.ids else 0
        return until(tokenizer.decode(answer.ids[behind:]).lstrip(), stops)
    text = until(answer.text, stops)
    return text if think_end is None else text.rpartition(think_end)[2].lstrip()


def until(text: str, stops: str | Sequence[str] | None) -> str:
    """The text up to the first stop."""
    for stop in [stops] if isinstance(stops, str) else stops or ():
        text = text.partition(stop)[0] if stop else text
    return text
