"""Ask a model how much the slots of each pass depended on each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anyorder.canvas import Hole, count_holes
from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.choose import Sampling
from anyorder.decoders.full import FullDecoder
from anyorder.errors import ParameterError
from anyorder.events import Event, Finished, Started
from anyorder.generation import Fold
from anyorder.params import DecodeParams
from anyorder.prompt import Prompt, encode_prompt
from anyorder.request import build_decoder
from anyorder.resolve import resolve
from anyorder.runner import Runner
from anyorder.seams.gaps import gap_of, known_sets
from anyorder.seams.replay import JointCommit, joint_commits
from anyorder.seams.report import PassGap, SeamReport

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel

_TOKENS = 2048
"""Fed to the model at once, at least one canvas: what bounds the memory."""


@torch.inference_mode()
def measure_seams(
    model: LoadedModel,
    prompt: Prompt,
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
        prompt, params, changes: those of the request.
        events: all events of one finished request, as `anyorder.stream` gives them.
        on_pass: is told of every measured pass.
    Raises:
        ParameterError: the request was not finished, is not that of these arguments, or was decoded with guidance.
    """
    encoded = encode_prompt(model, prompt)
    resolved = resolve(DecodeParams.of(params, **changes), model, holes=count_holes(encoded))
    _check(resolved, encoded, events)
    if resolved.mode == "causal":
        return SeamReport(passes=(), forwards=0)
    decoder = build_decoder(resolved, model, encoded)
    assert isinstance(decoder, FullDecoder | BlockDecoder)
    end = _text_end(events, model.stop_ids if resolved.stop_ids is None else resolved.stop_ids)
    asker = _Asker(Runner(model.network, model.adapter), decoder.chooser.sampling)
    passes: list[PassGap] = []
    for commit in joint_commits(decoder, events, end):
        passes.append(gap_of(commit, asker.logprobs(commit)))
        if on_pass:
            on_pass(passes[-1])
    return SeamReport(passes=tuple(passes), forwards=asker.forwards)


@dataclass
class _Asker:
    """Asks the model about the canvases of one pass, and counts them."""

    runner: Runner
    sampling: Sampling
    forwards: int = 0

    def logprobs(self, commit: JointCommit) -> Tensor:
        """[2n - 1, n] float64 nats on the CPU: see `gap_of`."""
        known = known_sets(commit.slots.shape[0])
        size = max(1, _TOKENS // commit.window.ids.shape[0])
        self.forwards += known.shape[0]
        return torch.cat([self._ask(commit, part) for part in known.split(size)])

    def _ask(self, commit: JointCommit, known: Tensor) -> Tensor:
        windows = [commit.window.showing(commit.slots[row], commit.ids[row]) for row in known]
        rows = self.runner.forward(windows, [None] * len(windows))
        ids = commit.ids.to(rows[0].device)
        logits = [self.sampling.adjust(each.float()).log_softmax(-1).gather(1, ids[:, None])[:, 0] for each in rows]
        return torch.stack(logits).cpu().double()


def _check(params: DecodeParams, prompt: Sequence[int | Hole], events: Sequence[Event]) -> None:
    if params.edit_threshold is not None:
        raise ParameterError(
            "seams are measured of what a pass commits for good; `edit_threshold` lets later ones change it, drop it",
            param="edit_threshold",
        )
    if params.cfg_scale:
        raise ParameterError(
            f"seams are measured of what the model itself predicts; `cfg_scale` is {params.cfg_scale}, make it 0",
            param="cfg_scale",
        )
    if not events or not isinstance(events[0], Started) or not isinstance(events[-1], Finished):
        raise ParameterError("`events` must be all events of one finished request, in order", param="events")
    given = [part for part in prompt if not isinstance(part, Hole)]
    opened = set(events[0].open)
    if [token for slot, token in enumerate(events[0].ids[: events[0].answer_start]) if slot not in opened] != given:
        raise ParameterError("`events` are those of another prompt", param="events")


def _text_end(events: Sequence[Event], stop_ids: tuple[int, ...]) -> int:
    """First slot behind the text and its stop token."""
    fold = Fold(lambda ids: "", stop_ids, lambda: 0.0, 0.0)
    for event in events:
        fold.add(event)
    return fold.answer_end() + 1
