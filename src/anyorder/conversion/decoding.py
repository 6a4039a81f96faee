"""What a model writes: causally, losslessly with drafts, and in any order by thresholds; with passes and seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyorder.api import EventStream
from anyorder.errors import ContextError, ModelError, ParameterError
from anyorder.models.loaded import LoadedModel
from anyorder.params import DecodeParams


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One text."""

    text: str
    ids: tuple[int, ...]
    """Without the stop token."""
    tokens: int
    """With it."""
    passes: int
    seconds: float
    """Prompt included."""


def causal(max_new_tokens: int, draft: str = "none") -> DecodeParams:
    """Greedy, left to right; a draft gives the same text in fewer passes."""
    return DecodeParams.of(mode="causal", draft=draft, max_new_tokens=max_new_tokens)


def any_order(model: LoadedModel, *, threshold: float, max_new_tokens: int) -> DecodeParams:
    """Threshold decoding with nothing that verifies it: in blocks where the model has them, else the whole canvas."""
    mode = "block" if "block" in model.spec.modes else "full"
    return DecodeParams(mode=mode, policy="threshold", threshold=threshold, max_new_tokens=max_new_tokens)


def answer(model: LoadedModel, prompt_ids: Sequence[int], params: DecodeParams) -> Answer:
    """Decode a prompt to its end; errors as `anyorder.generate`."""
    generation = EventStream(model, [list(prompt_ids)], params).generations()[0]
    stats = generation.stats
    return Answer(
        text=generation.text,
        ids=generation.ids,
        tokens=stats.tokens,
        passes=stats.passes,
        seconds=stats.time_to_last_s,
    )


def refusal(model: LoadedModel, prompt_ids: Sequence[int], params: DecodeParams) -> str | None:
    """Why the model cannot be decoded so; None if it can. Runs no pass."""
    try:
        EventStream(model, [list(prompt_ids)], params)
    except (ParameterError, ModelError, ContextError) as error:
        return str(error)
    return None
