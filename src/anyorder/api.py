"""The public functions: load a model, stream or collect its answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anyorder.cache.schemes import SCHEMES
from anyorder.cache.storage import KVStorage
from anyorder.canvas import Hole, Part, count_holes
from anyorder.engine.loop import Engine
from anyorder.engine.sequence import Sequence as RunningSequence
from anyorder.errors import ParameterError
from anyorder.events import Event
from anyorder.generation import Fold, Generation, Stats
from anyorder.models.load import load as load
from anyorder.params import DecodeParams
from anyorder.prompt import Prompt, encode_prompt, strip_padding
from anyorder.request.decoder import build_decoder
from anyorder.request.needs import stored_columns
from anyorder.resolve import resolve
from anyorder.runner import Runner
from anyorder.scoring import ScoreFold, ScoreMode, ScoreParams, Scores, build_scorer, resolve_scoring, without_holes
from anyorder.thinking import Reader, reader_of, template_inputs

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel


_SCORED_AT_ONCE = 512  # tokens of a pass; more would not be faster


class EventStream(Iterator[Event]):
    """The events of one or more requests, one forward pass for all of them at a time.

    Iterate over it to run the model; when it is exhausted, `generations()` has the answers.
    """

    def __init__(
        self,
        model: LoadedModel,
        prompts: Sequence[Sequence[Part]],
        params: DecodeParams,
        *,
        samples: Sequence[int] | None = None,
        readers: Sequence[Reader | None] | None = None,
        storage: KVStorage | None = None,
        cached: int = 0,
    ) -> None:
        began = time.perf_counter()
        self.params = [resolve(params, model, holes=count_holes(prompt), batch=len(prompts)) for prompt in prompts]
        self.runner = Runner(model.network, model.adapter)
        stop_ids = model.stop_ids if params.stop_ids is None else params.stop_ids
        self.folds = [
            Fold(_decode(model), stop_ids, time.perf_counter, began, reader.read if reader else None)
            for reader in readers or [None] * len(prompts)
        ]
        self.engine = Engine(
            self.runner,
            [
                self._sequence(model, prompt, index, samples[index] if samples else 0, storage, cached)
                for index, prompt in enumerate(prompts)
            ],
        )
        self.events: list[Event] = []
        """Everything that was handed out so far, of all requests."""
        self._events = self._run()

    def _sequence(
        self,
        model: LoadedModel,
        prompt: Sequence[Part],
        index: int,
        sample: int,
        storage: KVStorage | None,
        cached: int,
    ) -> RunningSequence:
        params = self.params[index]
        decoder = build_decoder(params, model, prompt, request=index, sample=sample, cached=cached)
        columns = stored_columns(params, decoder.end)
        if storage is not None:
            storage.reserve(columns)
        elif columns:
            storage = self.runner.storage(columns)
        return RunningSequence(decoder, storage, params.measure_drift)

    def _run(self) -> Iterator[Event]:
        yield from self._noted(self.engine.start())
        while self.engine.running:
            yield from self._noted(self.engine.step())

    def _noted(self, events: list[Event]) -> list[Event]:
        for event in events:
            self.folds[event.request].add(event)
        self.events += events
        return events

    def __next__(self) -> Event:
        return next(self._events)

    def stats(self, request: int = 0) -> Stats:
        """Figures of a finished request."""
        clock, drift, params = self.engine.clock, self.engine.sequences[request].drift, self.params[request]
        return self.folds[request].figures(
            model_s=clock.model_s,
            policy_s=clock.policy_s,
            other_s=clock.other_s,
            cache=params.cache,
            exact=SCHEMES[params.cache].exact,
            drift_max=drift.max_abs if params.measure_drift else None,
            drift_mean=drift.mean_abs if params.measure_drift else None,
        )

    def generations(self) -> list[Generation]:
        """The answers in the order of the prompts; runs whatever has not been iterated yet."""
        for _ in self:
            pass
        return [self.generation(request) for request in range(len(self.folds))]

    def generation(self, request: int) -> Generation:
        """The answer of a request whose `Finished` event has come."""
        return self.folds[request].result(self.stats(request))


def stream(
    model: LoadedModel,
    prompt: Prompt,
    params: DecodeParams | None = None,
    *,
    thinking: bool | None = None,
    **changes: Any,
) -> EventStream:
    """Decode one prompt and hand out what happens as it happens.

    Args:
        model: from `load`.
        prompt: text to continue, token ids, chat messages (`[{"role": "user", "content": "…"}]`), or a list of text,
            `Hole(n)` to fill and `Image(...)` to look at. A content may be a list of text and image parts.
        params: how to decode; `changes` are DecodeParams fields that replace some of it.
        thinking: in a chat, whether the model reasons before it answers; None leaves it to the chat template. What it
            reasons is in `Generation.reasoning`.
    Returns:
        an iterator of events that also has `.stats()` and `.generations()` when it is exhausted.
    Raises:
        ParameterError, ContextError: before the first pass.
    """
    encoded, readers = encoded_prompts(model, [prompt], thinking)
    return EventStream(model, encoded, DecodeParams.of(params, **changes), readers=readers)


def encoded_prompts(
    model: LoadedModel, prompts: Sequence[Prompt], thinking: bool | None
) -> tuple[list[list[Part]], list[Reader | None]]:
    """What `EventStream` takes of some prompts: their parts, and how their answers are read.

    Args:
        thinking: see `stream`.
    """
    inputs = [template_inputs(model, prompt, thinking) for prompt in prompts]
    told = list(zip(prompts, inputs, strict=True))
    return [encode_prompt(model, *pair) for pair in told], [reader_of(model, *pair) for pair in told]


def generate(
    model: LoadedModel,
    prompt: Prompt,
    params: DecodeParams | None = None,
    *,
    thinking: bool | None = None,
    **changes: Any,
) -> Generation:
    """Decode one prompt to its end: the fold of `stream`, with the same arguments."""
    return stream(model, prompt, params, thinking=thinking, **changes).generations()[0]


def generate_batch(
    model: LoadedModel,
    prompts: Sequence[Prompt],
    params: DecodeParams | None = None,
    *,
    attention_mask: Sequence[Sequence[int]] | None = None,
    samples: Sequence[int] | None = None,
    thinking: bool | None = None,
    **changes: Any,
) -> list[Generation]:
    """Decode many prompts of any lengths together, one forward pass for all of them at a time.

    Every answer is the one that the prompt would have got alone.

    Args:
        attention_mask: for prompts that are left-padded rows of token ids: 0 for padding, 1 for text.
        samples: number of each prompt's sample under the one seed, 0 if left out; equal prompts with different numbers
            get independent answers: `generate_batch(model, [prompt] * 4, samples=range(4), temperature=1.0)`.
        thinking: as in `stream`; all prompts must be chats then.
    """
    if isinstance(prompts, str) or not isinstance(prompts, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ParameterError(
            f"`prompts` must be a list of prompts, got {type(prompts).__name__}; put one prompt into a list",
            param="prompts",
        )
    if not prompts:
        raise ParameterError("no prompts given; give at least one", param="prompts")
    if attention_mask is not None:
        prompts = strip_padding(_token_rows(prompts), attention_mask)
    if samples is not None and not _are_samples(samples, len(prompts)):
        raise ParameterError(
            f"`samples` needs a number >= 0 for each of the {len(prompts)} prompts, got {samples!r}", param="samples"
        )
    encoded, readers = encoded_prompts(model, prompts, thinking)
    params = DecodeParams.of(params, **changes)
    return EventStream(model, encoded, params, samples=samples, readers=readers).generations()


def _are_samples(samples: object, count: int) -> bool:
    if not isinstance(samples, Sequence) or len(samples) != count:
        return False
    return all(type(sample) is int and 0 <= sample < 2**63 for sample in samples)


def _token_rows(prompts: Sequence[Prompt]) -> list[list[int]]:
    listed = [list(prompt) if isinstance(prompt, Sequence) else [None] for prompt in prompts]  # pyright: ignore[reportUnnecessaryIsInstance]
    rows = [[part for part in parts if isinstance(part, int)] for parts in listed]
    if list(map(len, rows)) != list(map(len, listed)):
        raise ParameterError(
            "`attention_mask` goes with rows of token ids, and a prompt is none", param="attention_mask"
        )
    return rows


def infill(
    model: LoadedModel, parts: Sequence[int | str | Hole], params: DecodeParams | None = None, **changes: Any
) -> Generation:
    """Fill the holes of a text: `infill(model, ["The capital of ", Hole(1), " is Paris."])`.

    Nothing is written behind the text unless `max_new_tokens` or `params` asks for it. The fills are in
    `Generation.holes`.
    """
    listed = isinstance(parts, Sequence)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not listed or not any(isinstance(part, Hole) for part in parts):
        raise ParameterError("infill needs a list of text with at least one Hole(n) in it", param="prompt")
    if params is None:
        changes.setdefault("max_new_tokens", 0)
    return generate(model, parts, params, **changes)


def score(
    model: LoadedModel,
    text: Prompt,
    *,
    mode: ScoreMode | None = None,
    start: int = 1,
    top_logprobs: int = 0,
    samples: int = 128,
    seed: int = 0,
) -> Scores:
    """How probable the model holds given text.

    Args:
        text: as `prompt` of `stream`, without holes.
        mode: causal, pseudo_likelihood, left_to_right or monte_carlo; None: causal where the weights have such a mode,
            else pseudo_likelihood. See `anyorder.scoring`.
        start: first token to score, from 0; those before it are read only.
        top_logprobs: likeliest tokens to name in the place of every scored one, at most 20.
        samples, seed: how many random maskings monte_carlo takes, and which.
    Raises:
        ParameterError, ContextError, ModelError: before the first pass.
    """
    wanted = ScoreParams(mode=mode, start=start, top_logprobs=top_logprobs, samples=samples, seed=seed)
    params, decode = resolve_scoring(wanted, model)
    ids = without_holes(encode_prompt(model, text))
    scorer = build_scorer(params, decode, model, ids, tokens=_SCORED_AT_ONCE)
    runner = Runner(model.network, model.adapter)
    columns = stored_columns(decode, len(ids))
    storage = runner.storage(columns) if columns else None
    engine = Engine(runner, [RunningSequence(scorer, storage)])
    fold = ScoreFold(_decode(model), params)
    events = engine.start()
    while engine.running:
        events += engine.step()
    for event in events:
        fold.add(event)
    return fold.result()


def _decode(model: LoadedModel):
    tokenizer = model.tokenizer
    return (lambda ids: tokenizer.decode(list(ids))) if tokenizer is not None else (lambda ids: "")
