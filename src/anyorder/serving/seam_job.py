"""From a finished answer whose seams are wanted to a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyorder.canvas import count_holes
from anyorder.resolve import resolve
from anyorder.seams.measure import build_seam_scorer, prompt_of
from anyorder.serving.job import Job
from anyorder.serving.settings import ServiceSettings
from anyorder.serving.ticket import Ticket
from anyorder.serving.work import SeamWork

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel


def make_seam_job(
    model: LoadedModel, work: SeamWork, *, settings: ServiceSettings, number: int, now: float, patience: float
) -> Job:
    """Lead a decoder through the answer and prepare what a pass asks about it.

    A pass takes as many canvases as a pass of prompts takes tokens, and at least one; nothing of them is stored.

    Raises:
        ParameterError, ContextError, ModelError: the answer has no seams that could be measured.
    """
    tokens = min(settings.prefill_tokens, settings.pass_tokens)
    params = resolve(work.params, model, holes=count_holes(prompt_of(work.events)))
    scorer = build_seam_scorer(model, work.events, params, tokens=tokens, request=number)
    return Job(
        number=number,
        work=work,
        params=params,
        decoder=scorer,
        ticket=Ticket(tag=work.tag, params=params, prompt_tokens=scorer.canvas.answer_start),
        columns=0,
        pass_tokens=max(tokens, scorer.widest),
        prefix=None,
        keys=[],
        submitted_at=now,
        due=now + patience,
        expires_at=None if work.deadline_s is None else now + work.deadline_s,
    )
