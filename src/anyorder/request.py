"""From resolved parameters, a model and a prompt to a decoder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from anyorder.canvas import NO_MASK, Canvas, Part, count_slots
from anyorder.decoders.base import Decoder
from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.causal import CausalDecoder
from anyorder.decoders.choose import Chooser, Sampling
from anyorder.decoders.draft import ACCELERATOR_ROWS, CPU_ROWS
from anyorder.decoders.drafters import Drafter, LookupDrafter, TreeDrafter
from anyorder.decoders.edit import Editing, EditingDecoder
from anyorder.decoders.full import FullDecoder
from anyorder.decoders.renoise import Cleaning, RenoiseDecoder
from anyorder.decoders.reordered import ReorderedDecoder
from anyorder.decoders.revisit import Revisiting, RevisitingDecoder
from anyorder.decoders.seeded import SeededDecoder
from anyorder.decoders.selfdraft import SelfDraftingDecoder
from anyorder.decoders.speculate import SpeculativeDecoder
from anyorder.decoders.streaming import StreamingDecoder
from anyorder.decoders.structure import StructureDecoder
from anyorder.draws import Draws
from anyorder.errors import ContextError, ModelError, ParameterError
from anyorder.ngrams import Guesser
from anyorder.ngrams.weights import PRIOR
from anyorder.params import DecodeParams
from anyorder.policies.catalog import POLICIES
from anyorder.policies.published import Knobs
from anyorder.policies.structure import Rules
from anyorder.resolve import num_blocks
from anyorder.window import Attention

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel

_BLOCK_DRAFT = 32  # of a model whose block has no length of its own
Number = TypeVar("Number", int, float)

_LOOKUP_LENGTH = 3  # a CPU computes four rows in the time of one
_TREE_NODES = 64  # more would hardly ever pay
_MASK_GROUPS = 4  # places where a draft may end that get masks; they cover nine ends of ten
_MASKS = 2  # per place, as the default model's adapter was trained
_EDIT_PASSES = 16  # LLaDA2.1's published default
_REVISIT_PASSES = 5  # of multi-block editing
_EPS = {"ddpm_cache": 1e-5}  # MDLM's published time grid ends here
_DREAM_EPS = 1e-3


def build_decoder(
    params: DecodeParams,
    model: LoadedModel,
    prompt: Sequence[Part],
    *,
    request: int = 0,
    sample: int = 0,
    cached: int = 0,
) -> Decoder:
    """A decoder for one prompt.

    Args:
        params: from `resolve`.
        prompt: token ids, holes and pictures.
        request: index in the batch, for the events.
        sample: number of the sample under one seed, for the draws.
        cached: leading columns whose keys and values the caller still has.
    Raises:
        ContextError: prompt and answer do not fit the model.
        ParameterError: there is nothing to decode, or a token id does not exist.
    """
    mask_id = _mask_id(params, model)
    prompt_length = count_slots(prompt)
    end = prompt_length + params.max_new_tokens
    _check_context(params, model, prompt_length, end)
    canvas = Canvas.from_prompt(prompt, mask_id=mask_id, request=request, forced=params.forced)
    if params.max_new_tokens == 0 and canvas.is_filled():
        raise ParameterError(
            "`max_new_tokens` is 0 and the prompt has no holes: there is nothing to decode; raise it or add a Hole",
            param="max_new_tokens",
        )
    _check_ids(params, model)
    chooser = _chooser(params, model, sample)
    stop_ids = model.stop_ids if params.stop_ids is None else params.stop_ids
    if params.mode == "full":
        return _full(params, model, canvas, chooser, end, stop_ids)
    if params.mode == "block" and model.spec.noise == "uniform":
        return _noise(params, model, canvas, chooser, end, stop_ids, cached)
    if params.mode == "block":
        return _block(params, model, canvas, chooser, end, stop_ids, cached)
    canvas.grow(params.max_new_tokens)
    if params.draft == "block":
        length = params.draft_length or (model.block_length or _BLOCK_DRAFT) - 1
        return SelfDraftingDecoder(canvas, chooser, length=length, stop_ids=stop_ids, stored=cached)
    if params.draft != "none":
        return SpeculativeDecoder(
            canvas,
            chooser,
            _drafter(params, model, stop_ids),
            stop_ids=stop_ids,
            stored=cached,
            mask_groups=_MASK_GROUPS if params.draft == "denoiser" else 0,
            masks=_MASKS,
        )
    return CausalDecoder(canvas, chooser, stop_ids=stop_ids, stored=cached, exact_cache=params.cache != "none")


def _drafter(params: DecodeParams, model: LoadedModel, stop_ids: tuple[int, ...]) -> Drafter:
    if params.draft == "lookup":
        return LookupDrafter(params.draft_length or _LOOKUP_LENGTH)
    table = model.ngrams
    guesser = Guesser(table, PRIOR if table is None else table.weights)
    cost = CPU_ROWS if model.device.type == "cpu" else ACCELERATOR_ROWS
    if params.draft_length is not None:
        return TreeDrafter(guesser, params.draft_length, stop_ids=stop_ids)
    return TreeDrafter(guesser, _TREE_NODES, cost=cost, stop_ids=stop_ids)


def _mask_id(params: DecodeParams, model: LoadedModel) -> int:
    """The id fed for open slots; causal decoding never feeds one."""
    if model.mask_token_id is not None:
        return model.mask_token_id
    if params.mode == "causal" or model.spec.noise == "uniform":
        return NO_MASK
    raise ModelError(f"{model.source} has no mask token, which mode {params.mode!r} needs; pass mask_token_id to load")


def stored_columns(params: DecodeParams, end: int) -> int:
    """Columns of key and value storage that a canvas of `end` slots comes to need; 0 if nothing is stored."""
    if params.cache == "none":
        return 0
    if params.draft in ("ngram", "denoiser"):
        end += params.draft_length or _TREE_NODES  # branches lie side by side
    if params.draft == "denoiser":
        end += _MASK_GROUPS * _MASKS
    block = params.block_length if params.mode == "block" and params.block_length else 1
    if params.t_max is not None:  # canvases of noise begin anywhere, and the last one is fed whole
        return end + block
    return -(-end // block) * block


def exact_prefix(params: DecodeParams, model: LoadedModel) -> tuple[Attention, int] | None:
    """What the keys and values of finished leading columns depend on besides their ids: (attention, block length).

    None if nothing is stored, or what is stored depends on what stands behind it. Where the attention is "block", only
    whole blocks are finished.
    """
    if params.mode == "full" or params.cache == "none":
        return None
    if params.mode == "causal" or model.spec.attention == "causal":
        return "causal", 1
    assert params.block_length is not None
    return "block", params.block_length


def widest_pass(params: DecodeParams, end: int, *, holes: int) -> int:
    """Tokens that one pass feeds at most, once the columns of the prompt are stored.

    Args:
        end: slots of the whole canvas.
        holes: slots to be filled in the prompt; the text behind them is fed when they are filled.
    """
    if params.cache == "none" or params.mode == "full" or holes:
        return end * (2 if params.cfg_scale or params.measure_drift else 1) + (params.block_length or 0)
    shadow = end if params.measure_drift else 0
    if params.mode == "block":
        block = params.block_length or 1
        return block * (2 + min(params.edit_blocks, -(-end // block))) + shadow
    most = {"lookup": _LOOKUP_LENGTH, "block": _BLOCK_DRAFT}.get(params.draft)
    drafted = stored_columns(params, end) - end if most is None else params.draft_length or most
    return 1 + drafted + shadow


def _check_context(params: DecodeParams, model: LoadedModel, prompt_length: int, end: int) -> None:
    limit = model.config.max_context
    if model.spec.slides and params.mode == "block":
        return
    if end > limit:
        raise ContextError(
            f"the prompt has {prompt_length} tokens and max_new_tokens is {params.max_new_tokens}, together {end}; "
            f"the model's context is {limit}: shorten them by {end - limit}"
        )


def _check_ids(params: DecodeParams, model: LoadedModel) -> None:
    named: dict[str, Iterable[int]] = {
        "banned_ids": params.banned_ids,
        "logit_bias": params.logit_bias,
        "stop_ids": params.stop_ids or (),
        "forced": params.forced.values(),
    }
    size = model.config.vocab_size
    for name, ids in named.items():
        for token in ids:
            if token >= size:
                raise ParameterError(f"`{name}` holds token id {token}; ids go from 0 to {size - 1}", param=name)
    if params.mode != "causal" and model.mask_token_id in params.forced.values():
        raise ParameterError(
            f"`forced` cannot hold the mask id {model.mask_token_id}; give the id of a real token", param="forced"
        )
    if params.mode != "causal" and model.mask_token_id in params.logit_bias:
        raise ParameterError(
            f"`logit_bias` names the mask id {model.mask_token_id}, which is never produced; drop it",
            param="logit_bias",
        )
    if len({model.mask_token_id, *_banned_ids(params, model)}) >= size:
        raise ParameterError("`banned_ids` leaves no token to produce; ban fewer", param="banned_ids")


def _banned_ids(params: DecodeParams, model: LoadedModel) -> tuple[int, ...]:
    control = model.edit_ids if model.edit_ids is not None and params.edit_threshold is None else ()
    return (*params.banned_ids, *(model.stop_ids[:1] if params.logits_eos_inf else ()), *control)


def _chooser(params: DecodeParams, model: LoadedModel, sample: int) -> Chooser:
    policy = POLICIES[params.policy or model.spec.policy]
    threshold = model.spec.threshold or (0.85 if policy.name == "low_confidence_dynamic" else 0.9)
    return Chooser(
        policy=policy,
        sampling=_sampling(params, model, sample),
        knobs=Knobs(
            threshold=threshold if params.threshold is None else params.threshold,
            strict=model.spec.strict_threshold,
            factor=1.0 if params.factor is None else params.factor,
            entropy_bound=0.1 if params.entropy_bound is None else params.entropy_bound,
            entropy_threshold=0.4 if params.entropy_threshold is None else params.entropy_threshold,
            position_penalty=0.02 if params.position_penalty is None else params.position_penalty,
        ),
        alg_temp=params.alg_temp,
        top=params.top_logprobs,
    )


def _sampling(params: DecodeParams, model: LoadedModel, sample: int) -> Sampling:
    stops = model.stop_ids
    late = stops if params.temperature == 0 else stops[1:]  # as published: sampling only delays the end of the turn
    return Sampling(
        mask_id=None if params.mode == "causal" else model.mask_token_id,
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=params.top_k,
        filter_order=model.spec.filter_order,
        nucleus=model.spec.nucleus,
        confidence=model.spec.confidence,
        banned_ids=_banned_ids(params, model),
        logit_bias=params.logit_bias,
        late_ids=late if params.confidence_eos_eot_inf else (),
        draws=Draws(params.seed, sample),
    )


def _eps(params: DecodeParams) -> float:
    return params.eps or _EPS.get(params.policy or "", _DREAM_EPS)


def _full(
    params: DecodeParams, model: LoadedModel, canvas: Canvas, chooser: Chooser, end: int, stop_ids: tuple[int, ...]
) -> FullDecoder:
    block = params.block_length
    visible = params.max_new_tokens
    if params.growth == "block" and block is not None:
        visible = min(visible, params.first_block_length or block)
    canvas.grow(visible)
    return FullDecoder(
        canvas,
        chooser,
        end=end,
        stop_ids=stop_ids,
        block_length=block if params.max_new_tokens else None,
        first_block_length=params.first_block_length if params.max_new_tokens else None,
        steps=None if params.steps is None else params.steps // num_blocks(params.max_new_tokens, block),
        eps=_eps(params),
        noise=params.noise or "loglinear",
        shift=model.spec.shift,
        scheme=params.cache,  # type: ignore[arg-type]  # resolve allows only the schemes of the mode
        cfg_scale=params.cfg_scale,
    )


def _noise(
    params: DecodeParams,
    model: LoadedModel,
    canvas: Canvas,
    chooser: Chooser,
    end: int,
    stop_ids: tuple[int, ...],
    cached: int,
) -> RenoiseDecoder:
    return RenoiseDecoder(
        canvas,
        chooser.sampling,
        end=end,
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
        stop_ids=stop_ids,
        stored=cached,
        exact_cache=params.cache != "none",
        top=chooser.top,
    )


def _filled(value: Number | None) -> Number:
    assert value is not None, "`resolve` fills it in"
    return value


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
    both_ways = model.adapter is not None or model.spec.blocks_both_ways
    options: dict[str, Any] = {
        "end": end,
        "block_length": params.block_length,
        "stop_ids": stop_ids,
        "sub_block_length": params.sub_block_length,
        "steps": params.steps,
        "eps": _eps(params),
        "noise": params.noise or "loglinear",
        "context": model.config.max_context if model.spec.slides else None,
        "shift": model.spec.shift,
        "attention": "causal" if model.spec.attention == "causal" else "block",
        "adapted": both_ways,
        "scheme": params.cache,
        "stored": cached // params.block_length * params.block_length,
        "fuse_write": not model.spec.shift or both_ways,
    }
    if model.spec.blocks != "grid":
        reordered = StreamingDecoder if params.window == "sliding" else ReorderedDecoder
        behind = SeededDecoder if model.spec.blocks == "seeded" else reordered
        return behind(canvas, chooser, **_behind(options, cached))
    if params.edit_threshold is None:
        return BlockDecoder(canvas, chooser, **options)
    if model.edit_ids is not None:
        return StructureDecoder(canvas, chooser, rules=_rules(params, model, chooser), **options)
    editing = _editing(params)
    if params.edit_blocks:
        passes = _REVISIT_PASSES if params.edit_passes is None else params.edit_passes
        revisiting = Revisiting(earlier=params.edit_blocks, max_passes=passes)
        return RevisitingDecoder(canvas, chooser, revisiting=revisiting, editing=editing, **options)
    return EditingDecoder(canvas, chooser, editing=editing, **options)


def _behind(options: dict[str, Any], cached: int) -> dict[str, Any]:
    """Blocks behind a prompt of any length: what a `TailDecoder` settles itself is left out."""
    settled = ("shift", "attention", "adapted", "fuse_write")
    return {name: value for name, value in options.items() if name not in settled} | {"stored": cached}


def _rules(params: DecodeParams, model: LoadedModel, chooser: Chooser) -> Rules:
    assert model.edit_ids is not None
    assert params.block_length is not None
    assert params.edit_threshold is not None
    return Rules(
        mask_id=_mask_id(params, model),
        delete_id=model.edit_ids[0],
        insert_id=model.edit_ids[1],
        threshold=chooser.knobs.threshold,
        edit_threshold=params.edit_threshold,
        steps=params.steps or params.block_length,
        max_post_passes=_EDIT_PASSES if params.edit_passes is None else params.edit_passes,
    )


def _editing(params: DecodeParams) -> Editing:
    """A pass that samples does not go in circles: the same block may be read otherwise the next time."""
    assert params.edit_threshold is not None
    return Editing(
        threshold=params.edit_threshold,
        max_post_passes=_EDIT_PASSES if params.edit_passes is None else params.edit_passes,
        cycle_guard=params.temperature == 0,
    )
