"""Decoders on oracles, run by the real engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from tests.oracles import Joint, OracleRunner

from anyorder.canvas import Canvas, Hole
from anyorder.decoders.base import DecoderBase
from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.causal import CausalDecoder
from anyorder.decoders.choose import Chooser, Sampling
from anyorder.decoders.drafters import Drafter
from anyorder.decoders.full import FullDecoder
from anyorder.decoders.reordered import ReorderedDecoder
from anyorder.decoders.speculate import SpeculativeDecoder
from anyorder.decoders.streaming import StreamingDecoder
from anyorder.draws import Draws
from anyorder.engine.loop import Engine
from anyorder.engine.sequence import Sequence as Running
from anyorder.events import Event
from anyorder.policies.catalog import POLICIES
from anyorder.policies.published import Knobs

Factory = Callable[[Canvas, Chooser], DecoderBase]

PROMPT_TOKEN = 0


def chooser(
    joint: Joint,
    policy: str = "random",
    *,
    request: int = 0,
    temperature: float = 1.0,
    alg_temp: float | None = None,
    confidence: str = "raw",
    knobs: dict[str, Any] | None = None,
) -> Chooser:
    return Chooser(
        policy=POLICIES[policy],
        sampling=Sampling(
            mask_id=joint.mask_id,
            temperature=temperature,
            confidence=cast(Any, confidence),
            draws=Draws(seed=11, sample=request),
        ),
        knobs=Knobs(**(knobs or {})),
        alg_temp=alg_temp,
    )


def full(joint: Joint, *, offset: int, **kwargs: Any) -> Factory:
    """Factories of full-canvas decoders whose answer is the joint's canvas."""

    def make(canvas: Canvas, chooser: Chooser) -> DecoderBase:
        canvas.grow(offset + joint.length - len(canvas))
        return FullDecoder(canvas, chooser, end=len(canvas), **kwargs)

    return make


def block(joint: Joint, *, offset: int, block_length: int, **kwargs: Any) -> Factory:
    def make(canvas: Canvas, chooser: Chooser) -> DecoderBase:
        return BlockDecoder(canvas, chooser, end=offset + joint.length, block_length=block_length, **kwargs)

    return make


def reordered(joint: Joint, *, offset: int, sliding: bool, **kwargs: Any) -> Factory:
    def make(canvas: Canvas, chooser: Chooser) -> DecoderBase:
        decoder = StreamingDecoder if sliding else ReorderedDecoder
        return decoder(canvas, chooser, end=offset + joint.length, **kwargs)

    return make


def causal(joint: Joint, *, offset: int, **kwargs: Any) -> Factory:
    def make(canvas: Canvas, chooser: Chooser) -> DecoderBase:
        canvas.grow(offset + joint.length - len(canvas))
        return CausalDecoder(canvas, chooser, stop_ids=(), **kwargs)

    return make


def drafting(joint: Joint, drafter: Callable[[Canvas], Drafter], *, offset: int) -> Factory:
    def make(canvas: Canvas, chooser: Chooser) -> DecoderBase:
        canvas.grow(offset + joint.length - len(canvas))
        return SpeculativeDecoder(canvas, chooser, drafter(canvas), stop_ids=())

    return make


def run(
    joint: Joint,
    factory: Factory,
    choosers: Sequence[Chooser],
    *,
    offset: int,
    shift: bool = False,
    prompt: Sequence[int | Hole] | None = None,
) -> tuple[list[tuple[int, ...]], list[Event], list[DecoderBase]]:
    """One sequence per chooser, all in one engine: their canvases (without the prompt), events and decoders."""
    runner = OracleRunner(joint, offset=offset, shift=shift)
    decoders: list[DecoderBase] = []
    for index, each in enumerate(choosers):
        parts = [PROMPT_TOKEN] * offset if prompt is None else prompt
        canvas = Canvas.from_prompt(parts, mask_id=joint.mask_id, request=index)
        decoders.append(factory(canvas, each))
    storages = [runner.storage(decoder.end + joint.length) for decoder in decoders]
    running = [Running(cast(Any, d), cast(Any, s)) for d, s in zip(decoders, storages, strict=True)]
    engine = Engine(cast(Any, runner), running)
    events = engine.start()
    while engine.running:
        events += engine.step()
    answers = [tuple(d.canvas.ids[offset : offset + joint.length].tolist()) for d in decoders]
    return answers, events, decoders
