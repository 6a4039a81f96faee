"""From parameters and a model to a decoder: every default is filled in and every contradiction refused here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyorder.cache.schemes import SCHEMES
from anyorder.canvas import Canvas, Hole
from anyorder.decoders.base import Decoder
from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.causal import CausalDecoder
from anyorder.decoders.choose import Chooser, Sampling
from anyorder.decoders.full import FullDecoder
from anyorder.draws import Draws
from anyorder.errors import ContextError, ParameterError
from anyorder.params import DecodeParams
from anyorder.policies.catalog import POLICIES
from anyorder.policies.published import Knobs

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel

_KNOB_POLICIES = {"threshold": "threshold", "factor": "factor", "entropy_bound": "entropy_bound"}
_FULL_BLOCK_LENGTH = 32  # for a cache or growth that needs blocks where the family has none
_ANY_ORDER_BLOCK_LENGTH = 8  # for an autoregressive model decoded in any order


def resolve(params: DecodeParams, model: LoadedModel, *, has_holes: bool = False) -> DecodeParams:
    """Replace "auto" and None by what the model's family publishes.

    Args:
        has_holes: the prompt has holes, which causal decoding cannot fill.
    Raises:
        ParameterError: a mode, cache or policy that the family does not support, or fields that contradict each other.
    """
    mode = _mode(params, model, has_holes)
    params = params.replace(mode=mode, cache=_cache(params, model, mode, has_holes))
    if mode == "causal":
        return _causal_params(params)
    params = params.replace(policy=_policy(params, model))
    _check_mode_fields(params, mode)
    params = params.replace(block_length=_block_length(params, model, mode))
    if mode == "block" and params.sub_block_length is None:
        sub = model.spec.sub_block_length
        fits = sub is not None and params.block_length is not None and params.block_length % sub == 0
        params = params.replace(sub_block_length=sub if fits else params.block_length)
    _check_lengths(params, mode, has_holes)
    return params


def build_decoder(
    params: DecodeParams,
    model: LoadedModel,
    prompt: Sequence[int | Hole],
    *,
    request: int = 0,
    sample: int = 0,
    cached: int = 0,
) -> Decoder:
    """A decoder for one prompt.

    Args:
        params: resolved.
        prompt: token ids and holes.
        request: index in the batch, for the events.
        sample: number of the sample under one seed, for the draws.
        cached: leading columns whose keys and values the caller still has.
    """
    assert model.mask_token_id is not None
    canvas = Canvas.from_prompt(prompt, mask_id=model.mask_token_id, request=request, forced=params.forced)
    end = len(canvas) + params.max_new_tokens
    _check_context(params, model, len(canvas), end)
    if params.max_new_tokens == 0 and canvas.is_filled():
        raise ParameterError("`max_new_tokens` is 0 and the prompt has no holes: nothing to decode; raise it",
                             param="max_new_tokens")  # fmt: skip
    chooser = _chooser(params, model, sample)
    stop_ids = model.stop_ids if params.stop_ids is None else params.stop_ids
    if params.mode == "full":
        return _full(params, model, canvas, chooser, end, stop_ids)
    if params.mode == "block":
        return _block(params, model, canvas, chooser, end, stop_ids, cached)
    canvas.grow(end - len(canvas))
    return CausalDecoder(canvas, chooser, stop_ids=stop_ids, cached=cached, exact_cache=params.cache != "none")


def stored_columns(params: DecodeParams, decoder: Decoder) -> int:
    """Columns of key and value storage that the decoder can come to need; 0 if it stores none."""
    if params.cache == "none":
        return 0
    end = getattr(decoder, "end")  # noqa: B009
    block = params.block_length or 1
    return -(-end // block) * block if params.mode == "block" else end


def _mode(params: DecodeParams, model: LoadedModel, has_holes: bool) -> str:
    spec, mode = model.spec, params.mode
    if mode == "auto":
        any_order = next((m for m in spec.modes if m != "causal"), None)
        return any_order if any_order and spec.decoder == "causal" and (has_holes or _wants_policy(params)) else spec.decoder
    if mode not in spec.modes:
        raise ParameterError(f"{spec.title} cannot decode in mode {mode!r}; it can in {', '.join(spec.modes)}", param="mode")
    if mode == "causal" and has_holes:
        raise ParameterError("mode 'causal' reads left to right and cannot fill holes; use "
                             + " or ".join(repr(m) for m in spec.modes if m != "causal"), param="mode")  # fmt: skip
    return mode


def _wants_policy(params: DecodeParams) -> bool:
    names = ("policy", "steps", "threshold", "factor", "entropy_bound", "block_length", "sub_block_length")
    return any(getattr(params, name) is not None for name in names) or params.cache == "sub_block"


def _cache(params: DecodeParams, model: LoadedModel, mode: str, has_holes: bool) -> str:
    known = {"causal": ("block", "none"), "full": ("none", "prefix", "dual"), "block": ("block", "sub_block", "none")}
    allowed = [name for name in known[mode] if name in model.spec.caches or name in ("none", "block")]
    cache = allowed[0] if params.cache == "auto" else params.cache
    if cache not in allowed:
        raise ParameterError(
            f"cache {cache!r} does not fit {model.spec.title} in mode {mode!r}; use {', '.join(allowed)}", param="cache"
        )
    if has_holes and not SCHEMES[cache].exact and mode == "full":
        raise ParameterError(f"cache {cache!r} keeps the prompt as it first was, so holes in it could not be filled; "
                             "use cache 'none'", param="cache")  # fmt: skip
    return cache


def _causal_params(params: DecodeParams) -> DecodeParams:
    for name in ("policy", "steps", "threshold", "factor", "entropy_bound", "alg_temp", "eps", "block_length",
                 "sub_block_length"):  # fmt: skip
        if getattr(params, name) is not None:
            raise ParameterError(f"`{name}` has no meaning in mode 'causal', which commits one token per pass; drop it "
                                 "or use mode 'block' or 'full'", param=name)  # fmt: skip
    _check_mode_fields(params, "causal")
    return params


def _policy(params: DecodeParams, model: LoadedModel) -> str:
    """The named policy; else the one that the given knob belongs to; else the family's."""
    if params.policy is not None:
        return params.policy
    given = [name for name in _KNOB_POLICIES if getattr(params, name) is not None]
    if len(given) > 1:
        raise ParameterError(f"{' and '.join(f'`{name}`' for name in given)} belong to different policies; name one with "
                             "`policy`", param="policy")  # fmt: skip
    family = model.spec.policy
    if params.steps is not None and not given and "steps" not in POLICIES[family].reads:
        return "low_confidence_static"
    if not given or given[0] in POLICIES[family].reads:
        return family
    return _KNOB_POLICIES[given[0]]


def _check_mode_fields(params: DecodeParams, mode: str) -> None:
    if params.cfg_scale and (mode != "full" or params.cache != "none"):
        raise ParameterError(f"`cfg_scale` needs mode 'full' and cache 'none', got mode {mode!r} and cache "
                             f"{params.cache!r}", param="cfg_scale")  # fmt: skip
    if params.growth == "block" and mode != "full":
        raise ParameterError(f"`growth` is a choice of mode 'full'; mode {mode!r} always opens slots as it goes; drop it",
                             param="growth")  # fmt: skip
    if params.sub_block_length is not None and mode == "full":
        raise ParameterError("`sub_block_length` belongs to mode 'block'; drop it", param="sub_block_length")
    if params.cache == "sub_block" and params.sub_block_length == params.block_length is not None:
        raise ParameterError("cache 'sub_block' needs a `sub_block_length` below `block_length`", param="cache")
    if params.measure_drift and params.cache == "none":
        raise ParameterError("`measure_drift` compares a cache with none, and the cache is 'none'; name a cache",
                             param="measure_drift")  # fmt: skip


def _block_length(params: DecodeParams, model: LoadedModel, mode: str) -> int | None:
    if params.block_length is not None:
        return params.block_length
    if mode == "block":
        return model.block_length or _ANY_ORDER_BLOCK_LENGTH
    needs_blocks = params.cache != "none" or params.growth == "block"
    return model.block_length or (_FULL_BLOCK_LENGTH if needs_blocks else None)


def _check_lengths(params: DecodeParams, mode: str, has_holes: bool) -> None:
    block, sub, steps, slots = params.block_length, params.sub_block_length, params.steps, params.max_new_tokens
    if block is not None and sub is not None and block % sub:
        raise ParameterError(f"`sub_block_length` {sub} does not divide the block length {block}; use a divisor",
                             param="sub_block_length")  # fmt: skip
    if steps is None:
        return
    if mode == "block":
        if block is not None and steps > block:
            raise ParameterError(f"`steps` counts passes per block here and a block has {block} slots, got {steps}; use "
                                 f"at most {block}", param="steps")  # fmt: skip
        return
    if steps > slots and not has_holes:
        raise ParameterError(f"`steps` is {steps} but only {slots} slots are to be decided; use at most {slots}",
                             param="steps")  # fmt: skip
    blocks = num_blocks(slots, block)
    if steps % blocks:
        low, high = steps // blocks * blocks or blocks, (steps // blocks + 1) * blocks
        raise ParameterError(f"`steps` is shared among {blocks} blocks of {block} slots, and {steps} is no multiple of "
                             f"{blocks}; use {low} or {high}", param="steps")  # fmt: skip


def num_blocks(slots: int, block_length: int | None) -> int:
    """Blocks that `slots` answer slots are cut into."""
    return 1 if block_length is None or slots == 0 else -(-slots // block_length)


def _check_context(params: DecodeParams, model: LoadedModel, prompt_length: int, end: int) -> None:
    limit = model.config.max_context
    if end > limit:
        raise ContextError(f"the prompt has {prompt_length} tokens and max_new_tokens is {params.max_new_tokens}, together "
                           f"{end}; the context of {model.spec.title} here is {limit}: shorten them by {end - limit}"
                           )  # fmt: skip


def _chooser(params: DecodeParams, model: LoadedModel, sample: int) -> Chooser:
    spec, stops = model.spec, model.stop_ids
    assert model.mask_token_id is not None
    policy = POLICIES[params.policy or "threshold"]
    default_threshold = 0.85 if policy.name == "low_confidence_dynamic" else 0.9
    for name in ("banned_ids", "logit_bias", "stop_ids"):
        _check_vocabulary(name, getattr(params, name) or (), model.config.vocab_size)
    _check_vocabulary("forced", params.forced.values(), model.config.vocab_size)
    if model.mask_token_id in params.forced.values():
        raise ParameterError(f"`forced` cannot hold the mask id {model.mask_token_id}; give a real token", param="forced")
    eos_ids = stops[:1] if params.logits_eos_inf else ()
    late = (stops if params.temperature == 0 else stops[1:]) if params.confidence_eos_eot_inf else ()
    return Chooser(
        policy=policy,
        sampling=Sampling(
            mask_id=model.mask_token_id,
            temperature=params.temperature,
            top_p=params.top_p,
            top_k=params.top_k,
            filter_order=spec.filter_order,
            confidence=spec.confidence,
            banned_ids=(*params.banned_ids, *eos_ids),
            logit_bias=params.logit_bias,
            late_ids=late,
            draws=Draws(params.seed, sample),
        ),
        knobs=Knobs(
            threshold=default_threshold if params.threshold is None else params.threshold,
            strict=spec.strict_threshold,
            factor=params.factor or 1.0,
            entropy_bound=0.1 if params.entropy_bound is None else params.entropy_bound,
        ),
        alg_temp=params.alg_temp,
    )


def _check_vocabulary(name: str, ids: object, size: int) -> None:
    for token in ids if isinstance(ids, (tuple, list, dict)) or hasattr(ids, "__iter__") else ():  # type: ignore[union-attr]
        if not 0 <= token < size:
            raise ParameterError(f"`{name}` holds token id {token}; ids go from 0 to {size - 1}", param=name)


def _full(
    params: DecodeParams, model: LoadedModel, canvas: Canvas, chooser: Chooser, end: int, stop_ids: tuple[int, ...]
) -> FullDecoder:
    block = params.block_length
    visible = end - len(canvas)
    if params.growth == "block" and block is not None:
        visible = min(visible, block)
    if visible:
        canvas.grow(visible)
    blocks = num_blocks(params.max_new_tokens, block)
    return FullDecoder(
        canvas,
        chooser,
        end=end,
        stop_ids=stop_ids,
        block_length=block if params.max_new_tokens else None,
        steps=None if params.steps is None else params.steps // blocks,
        eps=params.eps or 1e-3,
        shift=model.spec.shift,
        scheme="prefix" if params.cache == "prefix" else "dual" if params.cache == "dual" else "none",
        cfg_scale=params.cfg_scale,
    )


def _block(
    params: DecodeParams,
    model: LoadedModel,
    canvas: Canvas,
    chooser: Chooser,
    end: int,
    stop_ids: tuple[int, ...],
    cached: int,
) -> BlockDecoder:
    assert params.block_length is not None
    return BlockDecoder(
        canvas,
        chooser,
        end=end,
        block_length=params.block_length,
        stop_ids=stop_ids,
        sub_block_length=params.sub_block_length,
        steps=params.steps,
        eps=params.eps or 1e-3,
        shift=model.spec.shift,
        scheme="sub_block" if params.cache == "sub_block" else "none" if params.cache == "none" else "block",
        cached=cached // params.block_length * params.block_length,
    )
