"""From a text to be scored to a job: how much of it a pass takes, and what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyorder.prompt import encode_prompt
from anyorder.request.needs import exact_prefix, stored_columns
from anyorder.scoring import build_scorer, resolve_scoring, without_holes
from anyorder.serving.job import Job
from anyorder.serving.settings import ServiceSettings
from anyorder.serving.ticket import Ticket
from anyorder.serving.work import ScoreWork

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel


def make_score_job(
    model: LoadedModel, work: ScoreWork, *, settings: ServiceSettings, number: int, now: float, patience: float
) -> Job:
    """Check a text against the model and prepare its scorer.

    A pass takes as much of it as of a prompt. Text that a causal mode reads counts among the prompts of a pass; windows
    with masks count as a canvas does, so that a long text does not keep prompts waiting.

    Raises:
        ParameterError, ContextError, ModelError: the text cannot be scored.
    """
    ids = without_holes(encode_prompt(model, work.ids))
    params, decode = resolve_scoring(work.params, model)
    tokens = min(settings.prefill_tokens, settings.pass_tokens)
    scorer = build_scorer(params, decode, model, ids, tokens=tokens, request=number)
    causal, block = params.mode == "causal", decode.block_length or 1
    widest = min(tokens, len(ids)) if causal else max(tokens, -(-len(ids) // block) * block)
    return Job(
        number=number,
        work=work,
        params=decode,
        decoder=scorer,
        ticket=Ticket(tag=work.tag, params=decode, prompt_tokens=len(ids)),
        columns=stored_columns(decode, len(ids)),
        pass_tokens=widest,
        prefix=exact_prefix(decode, model) if causal else None,
        keys=ids[: params.start],
        submitted_at=now,
        due=now + patience,
        expires_at=None if work.deadline_s is None else now + work.deadline_s,
    )
