"""How probable given text is: which estimator a model has, and the fold of what it says.

A *causal* score is a chain rule: the sum over the tokens is the logarithm of the text's probability. So is a
*left-to-right* one, with the conditionals of a masked model that sees masks where the rest of the text is. A
*pseudo-likelihood* gives every token all the others to look at: it ranks texts and is no probability of any. A
*Monte-Carlo* score estimates a lower bound of the logarithm of the text's probability from random maskings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NoReturn, get_args

import torch
from torch import Tensor

from anyorder.canvas import NO_MASK, Canvas, Hole, Part
from anyorder.decoders.scorers import CausalScorer, MaskedScorer, MonteCarloScorer
from anyorder.draws import Draws
from anyorder.errors import ContextError, ModelError, ParameterError
from anyorder.events import Event, Finished, Scored, Started
from anyorder.params import CacheName, DecodeParams, Mode, did_you_mean
from anyorder.pictures import Picture
from anyorder.request.decoder import build_decoder
from anyorder.resolve import resolve
from anyorder.window import Window

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel

ScoreMode = Literal["causal", "pseudo_likelihood", "left_to_right", "monte_carlo"]
MODES: tuple[ScoreMode, ...] = get_args(ScoreMode)


_MOST = 2**63 - 1
_RANGES = {"top_logprobs": (0, 20), "start": (0, _MOST), "samples": (1, 100_000), "seed": (0, _MOST)}


@dataclass(frozen=True, kw_only=True)
class ScoreParams:
    """What is wanted of given text, checked by itself."""

    mode: ScoreMode | None = None
    """Estimator: causal reads left to right once, exactly; pseudo_likelihood masks one token at a time and shows all
    others; left_to_right masks a token and everything behind it; monte_carlo masks random sets of tokens, of a model
    that reads the whole canvas both ways. None: causal where the weights have such a mode, else pseudo_likelihood."""

    top_logprobs: int = 0
    """Name the 0 to 20 likeliest tokens of every place as well."""

    start: int = 1
    """First token to score, counted from 0. What stands before it is read and not scored. Nothing stands before token
    0, so only masked models say how probable it is."""

    samples: int = 128
    """Random sets of tokens that monte_carlo masks."""

    seed: int = 0
    """Of these sets: same seed, same sets."""

    def __post_init__(self) -> None:
        if self.mode is not None and self.mode not in MODES:
            hint = did_you_mean(str(self.mode), list(MODES))
            raise ParameterError(f"unknown way of scoring {self.mode!r}{hint}", param="mode")
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                allowed = f"of at least {least}" if most == _MOST else f"from {least} to {most}"
                raise ParameterError(f"`{name}` must be a whole number {allowed}, got {value!r}", param=name)
        if self.mode == "monte_carlo" and self.top_logprobs:
            raise ParameterError("`top_logprobs` has no meaning in mode 'monte_carlo'; drop it", param="top_logprobs")


def resolve_scoring(params: ScoreParams, model: LoadedModel) -> tuple[ScoreParams, DecodeParams]:
    """Fill in the mode, and say how the passes decode that the scores are of.

    Raises:
        ParameterError: the model has no such estimator.
    """
    spec = model.spec
    fits = _modes(model)
    if not fits:
        _refuse("mode", f"{spec.title} has no score: it neither reads a text from the left nor masks within one")
    mode = params.mode or fits[0]
    if mode not in fits:
        _refuse("mode", f"{spec.title} has no score {mode!r}; use {' or '.join(map(repr, fits))}")
    if mode == "causal":
        if params.start == 0:
            _refuse("start", "`start` is 0, and nothing stands before the first token in mode 'causal'; use 1")
        return replace(params, mode=mode), resolve(DecodeParams(mode="causal", draft="none"), model)
    if params.start == 0 and spec.shift:
        _refuse("start", f"`start` is 0, and {spec.title} predicts a token from the one before it; use 1")
    denoising: list[Mode] = [name for name in spec.modes if name != "causal"]
    cache: CacheName = "none" if denoising[0] == "full" else "block"
    decode = DecodeParams(mode=denoising[0], cache=cache, max_new_tokens=0)
    return replace(params, mode=mode), resolve(decode, model, holes=1)


def _modes(model: LoadedModel) -> list[ScoreMode]:
    """The estimators that a model has."""
    spec = model.spec
    reads_both_ways = spec.attention != "causal" or spec.blocks_both_ways or model.adapter is not None
    fills_holes = spec.blocks == "grid" and spec.noise != "uniform"  # a masked token is one
    has = {"causal": "causal" in spec.modes, "monte_carlo": spec.attention == "bidirectional"}
    return [mode for mode in MODES if has.get(mode, reads_both_ways and fills_holes)]


def build_scorer(
    params: ScoreParams,
    decode: DecodeParams,
    model: LoadedModel,
    ids: Sequence[int],
    *,
    tokens: int,
    request: int = 0,
) -> CausalScorer | MaskedScorer | MonteCarloScorer:
    """A scorer for one text.

    Args:
        params, decode: from `resolve_scoring`.
        ids: of the text.
        tokens: fed per pass at most; a masked text is fed whole, whatever its length.
    Raises:
        ContextError: the text does not fit the model.
        ModelError: the model has no mask token.
    """
    limit = model.config.max_context
    if len(ids) > limit:
        raise ContextError(f"the text has {len(ids)} tokens, and the model's context is {limit}: shorten it")
    canvas = Canvas.from_prompt(ids, mask_id=NO_MASK, request=request)
    if params.mode == "causal":
        return CausalScorer(canvas, first=params.start, chunk=tokens, top=params.top_logprobs)
    if model.mask_token_id is None:
        raise ModelError(f"{model.source} has no mask token, which {params.mode!r} needs; pass mask_token_id to load")
    if params.mode == "monte_carlo":

        def masking(slots: Tensor) -> Window:
            hidden = set(slots.tolist())
            holes = [Hole(1) if slot in hidden else token for slot, token in enumerate(ids)]
            return _first_windows(decode, model, holes)[-1]

        return MonteCarloScorer(
            canvas,
            masking,
            first=params.start,
            samples=params.samples,
            tokens=tokens,
            draws=Draws(params.seed),
            mask_id=model.mask_token_id,
        )
    only, length = params.mode == "pseudo_likelihood", decode.block_length

    def windows(slot: int) -> list[Window]:
        hidden = 1 if only else len(ids) - slot
        holes = [*ids[:slot], Hole(hidden), *ids[slot + hidden :]]
        *before, last = _first_windows(decode, model, holes, stored=_stored(slot, params.start, length))
        return [*before, last.wanting(last.rows[:1])]

    return MaskedScorer(
        canvas, windows, first=params.start, tokens=tokens, top=params.top_logprobs, mask_id=model.mask_token_id
    )


def _stored(slot: int, start: int, block_length: int | None) -> int:
    """Columns that are stored when a slot's turn comes.

    The windows of one text share a storage, in the order of the slots. What stands before a block is written with the
    block's first window, as the text has it; the block itself then holds one masking of it after another.
    """
    if block_length is None or slot == start:
        return 0
    begin = slot // block_length * block_length
    return begin - block_length if slot == begin else begin


def _first_windows(
    decode: DecodeParams, model: LoadedModel, prompt: Sequence[Part], *, stored: int = 0
) -> list[Window]:
    """The windows up to the one in which a decoder would decide the first slots of the holes."""
    decoder = build_decoder(decode, model, prompt, cached=stored)
    windows = decoder.plan()
    while not windows[-1].rows.shape[0]:  # one that only writes what is decided
        decoder.apply(torch.empty((3, 0)))
        windows += decoder.plan()
    return windows


def without_holes(prompt: Sequence[Part]) -> list[int]:
    """The ids of a text that is all there.

    Raises:
        ParameterError: it has a hole or a picture.
    """
    if any(isinstance(part, Picture) for part in prompt):
        _refuse("prompt", "a text with images cannot be scored; leave them out")
    ids = [part for part in prompt if isinstance(part, int)]
    if len(ids) < len(prompt):
        _refuse("prompt", "a text with holes cannot be scored; fill them, or give the text without them")
    return ids


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the likeliest tokens of a place."""

    id: int
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token of the text."""

    id: int
    text: str
    logprob: float | None
    """Natural logarithm of its probability, -inf where it is impossible; None where it was not scored."""
    alternatives: tuple[Candidate, ...] = ()
    """The likeliest tokens in its place, best first, as many as `top_logprobs` asked for."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """A text with what the model says of it."""

    mode: ScoreMode
    """How it was scored."""
    tokens: tuple[ScoredToken, ...]
    passes: int
    positions: int
    """Canvas positions computed over all passes."""
    error: float | None = None
    """Standard error of `total` in nats, of monte_carlo with several samples; None where nothing is estimated."""

    @property
    def logprobs(self) -> tuple[float | None, ...]:
        """Of every token."""
        return tuple(token.logprob for token in self.tokens)

    @property
    def total(self) -> float:
        """Sum over the scored tokens, in nats."""
        return sum(token.logprob for token in self.tokens if token.logprob is not None)


@dataclass
class ScoreFold:
    """Collects the events of one scored text.

    Args:
        decode: ids to text.
        params: from `resolve_scoring`.
    """

    decode: Callable[[Sequence[int]], str]
    params: ScoreParams
    ids: tuple[int, ...] = ()
    logprobs: dict[int, float] = field(default_factory=dict[int, float])
    alternatives: dict[int, tuple[tuple[int, float], ...]] = field(
        default_factory=dict[int, tuple[tuple[int, float], ...]]
    )
    error: float | None = None
    finished: Finished | None = None

    def add(self, event: Event) -> None:
        """Take one event of the text."""
        match event:
            case Started():
                self.ids = event.ids
            case Scored():
                self.error = event.error
                self.logprobs.update(zip(event.slots, event.logprobs, strict=True))
                self.alternatives.update(zip(event.slots, event.alternatives, strict=False))
            case Finished():
                self.finished = event
            case _:
                raise TypeError(f"unknown event {event!r}")

    def result(self) -> Scores:
        """The finished scores."""
        assert self.finished is not None, "the text is not scored to its end"
        assert self.params.mode is not None, "the mode is resolved"
        tokens = tuple(self._token(slot, id) for slot, id in enumerate(self.ids))
        return Scores(
            mode=self.params.mode,
            tokens=tokens,
            passes=self.finished.passes,
            positions=self.finished.positions,
            error=self.error,
        )

    def _token(self, slot: int, id: int) -> ScoredToken:
        best = (Candidate(other, self.decode([other]), value) for other, value in self.alternatives.get(slot, ()))
        return ScoredToken(id, self.decode([id]), self.logprobs.get(slot), tuple(best))


def _refuse(param: str, message: str) -> NoReturn:
    raise ParameterError(message, param=param)
