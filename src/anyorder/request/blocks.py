"""Decoders of modes full and block: a canvas that passes fill in any order."""

from __future__ import annotations

from typing import Any, TypeVar

from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.edit import Editing, EditingDecoder
from anyorder.decoders.full import FullDecoder
from anyorder.decoders.renoise import Cleaning, RenoiseDecoder
from anyorder.decoders.reordered import ReorderedDecoder
from anyorder.decoders.revisit import Revisiting, RevisitingDecoder
from anyorder.decoders.seeded import SeededDecoder
from anyorder.decoders.streaming import StreamingDecoder
from anyorder.decoders.structure import StructureDecoder
from anyorder.params import DecodeParams
from anyorder.policies.structure import Rules
from anyorder.request.ask import Ask, mask_id
from anyorder.resolve import num_blocks

Number = TypeVar("Number", int, float)

_EDIT_PASSES = 16  # LLaDA2.1's published default
_REVISIT_PASSES = 5  # of multi-block editing
_EPS = {"ddpm_cache": 1e-5}  # MDLM's published time grid ends here
_DREAM_EPS = 1e-3


def full_decoder(ask: Ask) -> FullDecoder:
    """The decoder of a request in mode full."""
    params, block = ask.params, ask.params.block_length
    visible = params.max_new_tokens
    if params.growth == "block" and block is not None:
        visible = min(visible, params.first_block_length or block)
    ask.canvas.grow(visible)
    return FullDecoder(
        ask.canvas,
        ask.chooser,
        end=ask.end,
        stop_ids=ask.stop_ids,
        block_length=block if params.max_new_tokens else None,
        first_block_length=params.first_block_length if params.max_new_tokens else None,
        steps=None if params.steps is None else params.steps // num_blocks(params.max_new_tokens, block),
        eps=_eps(params),
        noise=params.noise or "loglinear",
        shift=ask.model.spec.shift,
        scheme=params.cache,  # type: ignore[arg-type]  # resolve allows only the schemes of the mode
        cfg_scale=params.cfg_scale,
    )


def noise_decoder(ask: Ask) -> RenoiseDecoder:
    """The decoder of a request in mode block whose canvases begin as uniform noise."""
    params, model = ask.params, ask.model
    return RenoiseDecoder(
        ask.canvas,
        ask.chooser.sampling,
        end=ask.end,
        canvas_length=_filled(params.block_length),
        vocab_size=model.config.vocab_size,
        soften=model.network.soften,
        cleaning=Cleaning(
            steps=_filled(params.steps),
            entropy_bound=_filled(params.entropy_bound),
            t_min=_filled(params.t_min),
            t_max=_filled(params.t_max),
            stability=_filled(params.stability_threshold),
            confidence=_filled(params.confidence_threshold),
        ),
        stop_ids=ask.stop_ids,
        stored=ask.cached,
        exact_cache=params.cache != "none",
        top=ask.chooser.top,
    )


def block_decoder(ask: Ask) -> BlockDecoder:
    """The decoder of a request in mode block whose open slots are masks."""
    canvas, chooser, blocks = ask.canvas, ask.chooser, ask.model.spec.blocks
    if blocks == "seeded":
        return SeededDecoder(canvas, chooser, stored=ask.cached, **_options(ask))
    if blocks == "reordered":
        decoder = StreamingDecoder if ask.params.window == "sliding" else ReorderedDecoder
        return decoder(canvas, chooser, stored=ask.cached, **_options(ask))
    options = _options(ask) | _grid(ask)
    if ask.params.edit_threshold is None:
        return BlockDecoder(canvas, chooser, **options)
    if ask.model.edit_ids is not None:
        return StructureDecoder(canvas, chooser, rules=_rules(ask), **options)
    if ask.params.edit_blocks:
        return RevisitingDecoder(
            canvas, chooser, revisiting=_revisiting(ask.params), editing=_editing(ask.params), **options
        )
    return EditingDecoder(canvas, chooser, editing=_editing(ask.params), **options)


def _options(ask: Ask) -> dict[str, Any]:
    """What all block decoders take."""
    params, model = ask.params, ask.model
    return {
        "end": ask.end,
        "block_length": _filled(params.block_length),
        "stop_ids": ask.stop_ids,
        "sub_block_length": params.sub_block_length,
        "steps": params.steps,
        "eps": _eps(params),
        "noise": params.noise or "loglinear",
        "context": model.config.max_context if model.spec.slides else None,
        "scheme": params.cache,
    }


def _grid(ask: Ask) -> dict[str, Any]:
    """What those take besides whose blocks lie on a grid that begins with the prompt."""
    spec, block_length = ask.model.spec, _filled(ask.params.block_length)
    both_ways = ask.model.adapter is not None or spec.blocks_both_ways
    return {
        "shift": spec.shift,
        "attention": "causal" if spec.attention == "causal" else "block",
        "adapted": both_ways,
        "fuse_write": not spec.shift or both_ways,
        "stored": ask.cached // block_length * block_length,
    }


def _rules(ask: Ask) -> Rules:
    params, edit_ids = ask.params, ask.model.edit_ids
    assert edit_ids is not None
    return Rules(
        mask_id=mask_id(params, ask.model),
        delete_id=edit_ids[0],
        insert_id=edit_ids[1],
        threshold=ask.chooser.knobs.threshold,
        edit_threshold=_filled(params.edit_threshold),
        steps=params.steps or _filled(params.block_length),
        max_post_passes=_EDIT_PASSES if params.edit_passes is None else params.edit_passes,
    )


def _revisiting(params: DecodeParams) -> Revisiting:
    passes = _REVISIT_PASSES if params.edit_passes is None else params.edit_passes
    return Revisiting(earlier=params.edit_blocks, max_passes=passes)


def _editing(params: DecodeParams) -> Editing:
    """A pass that samples does not go in circles: the same block may be read otherwise the next time."""
    return Editing(
        threshold=_filled(params.edit_threshold),
        max_post_passes=_EDIT_PASSES if params.edit_passes is None else params.edit_passes,
        cycle_guard=params.temperature == 0,
    )


def _eps(params: DecodeParams) -> float:
    return params.eps or _EPS.get(params.policy or "", _DREAM_EPS)


def _filled(value: Number | None) -> Number:
    assert value is not None, "`resolve` fills it in"
    return value
