"""Ask a model how much the slots of each pass depended on each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from anyorder.canvas import Canvas, Hole, count_holes
from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.choose import Sampling
from anyorder.decoders.full import FullDecoder
from anyorder.engine.loop import Engine
from anyorder.engine.sequence import Sequence as RunningSequence
from anyorder.errors import ParameterError
from anyorder.events import Event, Finished, Remasked, Revised, Started
from anyorder.generation import Fold
from anyorder.params import DecodeParams
from anyorder.request.decoder import build_decoder
from anyorder.resolve import resolve
from anyorder.runner import Runner
from anyorder.seams.replay import joint_commits
from anyorder.seams.report import PassGap, Seam, SeamReport
from anyorder.seams.scorer import SeamScorer

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel

TOKENS = 2048
"""Fed to the model at once, at least one canvas: what bounds the memory."""


def measure_seams(
    model: LoadedModel,
    events: Sequence[Event],
    params: DecodeParams | None = None,
    *,
    on_pass: Callable[[PassGap], None] | None = None,
    **changes: Any,
) -> SeamReport:
    """How much the tokens of an answer that came out of the same pass depended on each other.

    For each pass that committed n > 1 slots of the text, the model computes 2n - 1 canvases without any cache: the
    committed tokens' log-probabilities alone, in a chain, and for every pair. Biases and bans of the request hold,
    its temperature, `top_p` and `top_k` do not: what is measured is the model's own distribution. Mode causal has no
    seams, drafts included: every token is drawn knowing all before it.

    Args:
        events: all events of one finished request, as `anyorder.stream` gives them.
        params, changes: those of the request.
        on_pass: is told of every measured pass.
    Raises:
        ParameterError: the request was not finished, is not that of these parameters, was decoded with guidance, or
            changed its mind about a slot.
    """
    resolved = resolve(DecodeParams.of(params, **changes), model, holes=count_holes(prompt_of(events)))
    scorer = build_seam_scorer(model, events, resolved, tokens=TOKENS)
    engine = Engine(Runner(model.network, model.adapter), [RunningSequence(scorer)])
    found = engine.start()
    passes: list[PassGap] = []
    while engine.running:
        found = engine.step()
        for gap in (event.gap for event in found if isinstance(event, Seam)):
            passes.append(gap)
            if on_pass:
                on_pass(gap)
    return SeamReport(passes=tuple(passes), forwards=scorer.windows)


def check_seams(model: LoadedModel, params: DecodeParams) -> None:
    """Refuse what never has seams that could be measured; before the request runs, where one can.

    Args:
        params: of the request, from `resolve` or not.
    Raises:
        ParameterError: guidance, or slots that every pass decides anew.
    """
    if params.cfg_scale:
        raise ParameterError(
            f"seams are measured of what the model itself predicts; `cfg_scale` is {params.cfg_scale}, make it 0",
            param="cfg_scale",
        )
    mode = model.spec.decoder if params.mode == "auto" else params.mode
    if model.spec.noise == "uniform" and mode != "causal":
        raise ParameterError(
            f"{model.spec.title} decides its slots anew in every pass, so that no pass is final: no `seams`; drop them "
            "or use mode 'causal'",
            param="seams",
        )


def build_seam_scorer(
    model: LoadedModel, events: Sequence[Event], params: DecodeParams, *, tokens: int, request: int = 0
) -> SeamScorer:
    """From the events of a finished request to what an engine runs to find its seams.

    Args:
        params: of the request, from `resolve`.
    Raises:
        ParameterError: see `measure_seams`.
    """
    prompt = prompt_of(events)
    check_seams(model, params)
    _check(events)
    fold = Fold(lambda ids: "", model.stop_ids if params.stop_ids is None else params.stop_ids, lambda: 0.0, 0.0)
    for event in events:
        fold.add(event)
    decoder = build_decoder(params, model, prompt)
    canvas = Canvas(
        torch.tensor(fold.ids),
        torch.zeros(len(fold.ids), dtype=torch.bool),
        mask_id=decoder.canvas.mask_id,
        answer_start=fold.answer_start,
        request=request,
    )
    if params.mode == "causal":
        return SeamScorer(canvas, (), Sampling(mask_id=None), tokens=tokens)
    assert isinstance(decoder, FullDecoder | BlockDecoder), "`check_seams` has refused the others"
    commits = joint_commits(decoder, events, fold.answer_end() + 1)
    return SeamScorer(canvas, commits, decoder.chooser.sampling, tokens=tokens)


def prompt_of(events: Sequence[Event]) -> list[int | Hole]:
    """What the request began with.

    Raises:
        ParameterError: the events are not all of one finished request.
    """
    if not events or not isinstance(events[0], Started) or not isinstance(events[-1], Finished):
        raise ParameterError("`events` must be all events of one finished request, in order", param="events")
    started = events[0]
    open_slots = set(started.open)
    return [Hole(1) if slot in open_slots else token for slot, token in enumerate(started.ids[: started.answer_start])]


def _check(events: Sequence[Event]) -> None:
    if any(isinstance(event, Revised | Remasked) for event in events):
        raise ParameterError(
            "slots of this request were decided anew, so that no pass is final: no `seams`", param="seams"
        )
