"""From parameters and a model's family to parameters without gaps: defaults filled in, contradictions refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from anyorder.cache.schemes import SCHEMES
from anyorder.errors import ParameterError
from anyorder.params import KNOBS, CacheName, DecodeParams, Draft, Mode, Sliding
from anyorder.policies.catalog import POLICIES

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel

_FULL_BLOCK_LENGTH = 32  # for a cache or growth that needs blocks where the family has none
_ANY_ORDER_BLOCK_LENGTH = 8  # for an autoregressive model decoded in any order
_LARGEST_TREE = 256  # tokens; every one takes a column of keys and values for as long as the request runs
_CACHES: dict[Mode, tuple[CacheName, ...]] = {
    "causal": ("block", "none"),
    "full": ("none", "prefix", "dual"),
    "block": ("block", "sub_block", "none"),
}
_POLICY_FIELDS = ("policy", *KNOBS)
_NOISE_FIELDS = ("t_min", "t_max", "stability_threshold", "confidence_threshold")
_NOISE_DEFAULTS = {
    "steps": 48, "entropy_bound": 0.1, "t_min": 0.4, "t_max": 0.8, "stability_threshold": 1,
    "confidence_threshold": 0.005,
}  # fmt: skip
"""Of DiffusionGemma's published generation config."""
_MASK_FIELDS = (
    "threshold", "factor", "entropy_threshold", "position_penalty", "alg_temp", "eps", "noise", "window",
    "sub_block_length", "first_block_length", "edit_threshold",
    "edit_passes", "edit_blocks", "growth", "cfg_scale", "confidence_eos_eot_inf",
)  # fmt: skip
"""What a canvas of noise cannot have."""
_BLOCK_FIELDS = ("block_length", "sub_block_length")


def resolve(params: DecodeParams, model: LoadedModel, *, holes: int = 0, batch: int = 1) -> DecodeParams:
    """Replace "auto" and None by what the model's family publishes.

    Args:
        holes: slots to be filled in the prompt, which causal decoding cannot do.
        batch: requests that are decoded together.
    Raises:
        ParameterError: a mode, cache or policy that the family does not support, or fields that contradict each other.
    """
    mode = _mode(params, model, has_holes=holes > 0)
    cache = _cache(params, model, mode, has_holes=holes > 0)
    params = params.replace(mode=mode, cache=cache)
    params = params.replace(draft=_draft(params, model, batch))
    if model.spec.noise == "uniform" and mode == "block":
        return _noise(params, model, has_holes=holes > 0)
    _check_noise_fields(params, model)
    _check_mode_fields(params)
    _check_window_fits(params, model)
    _check_edits(params, model)
    _check_structure(params, model, has_holes=holes > 0)
    _check_draft(params, model)
    _check_stops(params, model)
    _check_filters(params, model)
    if mode == "causal":
        return params
    params = params.replace(policy=_policy(params, model), block_length=_block_length(params, model))
    _check_delay(params)
    if mode == "block":
        params = params.replace(window=_window(params, model))
        params = params.replace(sub_block_length=_sub_block_length(params, model))
    _check_steps(params, holes=holes)
    return params


def _noise(params: DecodeParams, model: LoadedModel, *, has_holes: bool) -> DecodeParams:
    """Canvases of noise: published defaults, and refusals of what only masks can have."""
    title = model.spec.title
    if has_holes:
        _refuse("prompt", f"{title} writes behind what is given and cannot fill holes; leave them out of the prompt")
    if params.policy not in (None, "renoise"):
        _refuse("policy", f"{title} cleans a canvas of noise, by policy 'renoise', got {params.policy!r}; drop it")
    for name in _MASK_FIELDS:
        if getattr(params, name) != getattr(DecodeParams(), name):
            _refuse(name, f"`{name}` is not supported where a canvas of noise is cleaned ({title}); drop it")
    _check_mode_fields(params)
    _check_draft(params, model)
    _check_stops(params, model)
    defaults = {**_NOISE_DEFAULTS, **_one_temperature(params)}
    defaults = {name: value for name, value in defaults.items() if getattr(params, name) is None}
    return params.replace(policy="renoise", block_length=_block_length(params, model), **defaults)


def _one_temperature(params: DecodeParams) -> dict[str, float]:
    """`temperature` above 0 holds for all passes, so nothing may say that it falls."""
    if params.temperature == 0:
        return {}
    for name in ("t_min", "t_max"):
        if getattr(params, name) not in (None, params.temperature):
            _refuse(name, f"`temperature` {params.temperature} is that of every pass, which `{name}` denies; drop one")
    return {"t_min": params.temperature, "t_max": params.temperature}


def _check_noise_fields(params: DecodeParams, model: LoadedModel) -> None:
    if params.policy == "renoise":
        _refuse("policy", f"policy 'renoise' cleans canvases of noise, {model.spec.title} fills masks; use another one")
    for name in _NOISE_FIELDS:
        if getattr(params, name) is not None:
            what = f"{model.spec.title} in mode {params.mode!r}"
            _refuse(name, f"`{name}` is about canvases of noise, and {what} cleans none; drop it")


def num_blocks(slots: int, block_length: int | None) -> int:
    """Blocks that `slots` answer slots are cut into."""
    return 1 if block_length is None or slots == 0 else -(-slots // block_length)


def _refuse(param: str, message: str) -> NoReturn:
    raise ParameterError(message, param=param)


def _mode(params: DecodeParams, model: LoadedModel, *, has_holes: bool) -> Mode:
    spec, mode = model.spec, params.mode
    if spec.blocks != "grid" and has_holes:
        _refuse(
            "prompt", f"{spec.title} writes behind what is given and cannot fill holes; leave them out of the prompt"
        )
    if mode == "auto":
        return _auto_mode(params, model, has_holes=has_holes)
    if mode not in spec.modes:
        _refuse("mode", f"{spec.title} cannot decode in mode {mode!r}; use {' or '.join(map(repr, spec.modes))}")
    if mode == "causal" and has_holes:
        others = " or ".join(repr(m) for m in spec.modes if m != "causal")
        _refuse("mode", f"mode 'causal' reads left to right and cannot fill holes; use mode {others}")
    return mode


def _auto_mode(params: DecodeParams, model: LoadedModel, *, has_holes: bool) -> Mode:
    """The family's mode; an autoregressive model leaves causal mode when a hole or a policy asks for it."""
    any_order: list[Mode] = [m for m in model.spec.modes if m != "causal"]
    asked = has_holes or params.cache == "sub_block"
    asked = asked or any(getattr(params, name) is not None for name in (*_POLICY_FIELDS, *_BLOCK_FIELDS))
    return any_order[0] if model.spec.decoder == "causal" and asked and any_order else model.spec.decoder


def _cache(params: DecodeParams, model: LoadedModel, mode: Mode, *, has_holes: bool) -> CacheName:
    allowed: list[CacheName] = [name for name in _CACHES[mode] if name in model.spec.caches]
    cache = allowed[0] if params.cache == "auto" else params.cache
    title = model.spec.title
    if cache not in allowed:
        _refuse("cache", f"cache {cache!r} does not fit {title} in mode {mode!r}; use {', '.join(allowed)}")
    if has_holes and mode == "full" and not SCHEMES[cache].exact:
        _refuse("cache", f"cache {cache!r} keeps the prompt as it first was, holes in it included; use cache 'none'")
    return cache


def _policy(params: DecodeParams, model: LoadedModel) -> str:
    """The named policy; else the family's, unless a knob was given that belongs to another one."""
    if params.policy is not None:
        return params.policy
    family = POLICIES[model.spec.policy]
    given = [name for name in KNOBS if getattr(params, name) is not None]
    knobs = [name for name in given if name in POLICIES]
    if all(name in family.reads for name in given):
        return family.name
    if len(knobs) > 1:
        _refuse(
            "policy", f"{' and '.join(f'`{k}`' for k in knobs)} belong to different policies; name one with `policy`"
        )
    if knobs:
        return knobs[0]
    if "position_penalty" in given:
        return "entropy_threshold"
    if "noise" in given or family.name == "first_hitting":
        return "ddpm" if params.mode == "block" else "ddpm_cache"
    return "entropy" if {"alg_temp", "eps"} & set(given) else "low_confidence"


def _block_length(params: DecodeParams, model: LoadedModel) -> int | None:
    context = model.config.max_context
    if params.block_length is not None:
        if params.block_length > context:
            _refuse(
                "block_length", f"`block_length` {params.block_length} is longer than the model's context {context}"
            )
        return params.block_length
    if params.mode == "block":
        return model.block_length or _ANY_ORDER_BLOCK_LENGTH
    needs_blocks = params.cache != "none" or params.growth == "block"
    return model.block_length or (_FULL_BLOCK_LENGTH if needs_blocks else None)


def _sub_block_length(params: DecodeParams, model: LoadedModel) -> int:
    block, sub, published = params.block_length, params.sub_block_length, model.spec.sub_block_length
    assert block is not None
    whole = "`steps`" if params.steps is not None else "policy 'origin'" if params.policy == "origin" else None
    if whole and (params.cache == "sub_block" or (sub or block) < block):
        name = "cache" if params.cache == "sub_block" else "sub_block_length"
        _refuse(name, f"{whole} spreads over a whole block, which sub-blocks cut; drop it or do without sub-blocks")
    if sub is None:
        sub = published if published and block % published == 0 and not whole else block
    if params.cache == "sub_block" and sub == block:
        _refuse("sub_block_length", f"cache 'sub_block' needs a `sub_block_length` below the block length {block}")
    return sub


def _check_mode_fields(params: DecodeParams) -> None:
    mode = params.mode
    if mode == "causal":
        for name in (*_POLICY_FIELDS, *_BLOCK_FIELDS):
            if getattr(params, name) is not None:
                _refuse(name, f"`{name}` has no meaning in mode 'causal', which commits one token per pass; drop it")
        if params.confidence_eos_eot_inf:
            _refuse("confidence_eos_eot_inf", "`confidence_eos_eot_inf` has no meaning in mode 'causal'; drop it")
    if params.cfg_scale and (mode != "full" or params.cache != "none"):
        got = f"mode {mode!r} and cache {params.cache!r}"
        _refuse("cfg_scale", f"`cfg_scale` needs mode 'full' and cache 'none', got {got}")
    if params.first_block_length is not None:
        _check_first_block(params, mode)
    if params.growth == "block" and mode != "full":
        _refuse("growth", f"`growth` is a choice of mode 'full'; mode {mode!r} opens slots as it goes; drop it")
    if params.sub_block_length is not None and mode == "full":
        _refuse("sub_block_length", "`sub_block_length` belongs to mode 'block'; drop it")
    if params.measure_drift and params.cache == "none":
        _refuse("measure_drift", "`measure_drift` compares a cache with none, and the cache is 'none'; name a cache")


def _check_window_fits(params: DecodeParams, model: LoadedModel) -> None:
    if params.window != "auto" and model.spec.blocks != "reordered":
        what = f"{model.spec.title} does not"
        _refuse("window", f"`window` is about models that read masks behind all known tokens (WeDLM), {what}; drop it")


def _window(params: DecodeParams, model: LoadedModel) -> Sliding:
    """As published where it is left open; a window that slides has no blocks that a schedule or sub-blocks divide."""
    info = POLICIES[params.policy or ""]
    if model.spec.blocks != "reordered" or params.window == "block":
        return params.window
    if params.window == "auto":
        return "sliding" if info.name == "entropy_threshold" and params.sub_block_length is None else "block"
    if info.schedule != "none":
        takers = ", ".join(p.name for p in POLICIES.values() if p.schedule == "none" and p.name != "renoise")
        name = "policy" if params.policy else "window"
        _refuse(name, f"policy {info.name!r} shares a block among passes, and window 'sliding' has none; use {takers}")
    if params.sub_block_length is not None:
        _refuse("sub_block_length", "`sub_block_length` divides blocks, and window 'sliding' has none; drop one")
    return params.window


def _check_first_block(params: DecodeParams, mode: Mode) -> None:
    """Only a canvas that is read as a whole does not care where its blocks end."""
    name = "first_block_length"
    if mode == "block":
        _refuse(name, f"`{name}` belongs to mode 'full'; a block model reads blocks of one length; drop it")
    if mode == "causal":
        _refuse(name, f"`{name}` belongs to mode 'full'; mode 'causal' has a token to read after every pass; drop it")
    if params.steps is not None:
        _refuse(name, f"`{name}` and `steps`, which are shared among equal blocks, do not go together; drop one")


def _check_edits(params: DecodeParams, model: LoadedModel) -> None:
    if params.edit_threshold is None:
        return
    if not model.spec.edits:
        _refuse(
            "edit_threshold",
            "`edit_threshold` needs a model that was trained to correct its own text (LLaDA2.1), and "
            f"{model.spec.title} was not; drop it",
        )
    if params.mode != "block":
        _refuse("edit_threshold", f"`edit_threshold` belongs to mode 'block', got mode {params.mode!r}; drop it")
    if params.sub_block_length is not None:
        _refuse("sub_block_length", "`edit_threshold` edits a whole block, which sub-blocks cut; drop one")


def _check_structure(params: DecodeParams, model: LoadedModel, *, has_holes: bool) -> None:
    """Inserting and deleting moves tokens of a block, and is only defined for the best token."""
    if params.edit_threshold is None or model.edit_ids is None:
        return
    if params.edit_blocks:
        title = model.spec.title
        _refuse(
            "edit_blocks",
            f"`edit_blocks` does not go with inserting and deleting ({title} with control tokens): what moves cannot "
            "cross into an earlier block; drop it",
        )
    given = {"temperature": params.temperature > 0, "forced": bool(params.forced), "top_logprobs": params.top_logprobs}
    for name, there in given.items():
        if there:
            _refuse(name, f"`{name}` does not go with inserting and deleting (`edit_threshold`); drop one")
    if has_holes:
        _refuse("edit_threshold", "a hole cannot grow or shrink, which `edit_threshold` asks for; drop it")
    if params.policy != POLICIES[model.spec.policy].name and params.policy is not None:
        _refuse("policy", f"inserting and deleting has a schedule of its own, got policy {params.policy!r}; drop it")


def _check_stops(params: DecodeParams, model: LoadedModel) -> None:
    for name in ("logits_eos_inf", "confidence_eos_eot_inf"):
        if getattr(params, name) and not model.stop_ids:
            _refuse(name, f"`{name}` is about stop tokens, and {model.source} names none; drop it or use banned_ids")


def _check_delay(params: DecodeParams) -> None:
    info = POLICIES[params.policy or ""]
    if params.confidence_eos_eot_inf and (info.score != "probability" or info.name == "sequential"):
        _refuse(
            "confidence_eos_eot_inf",
            f"`confidence_eos_eot_inf` lowers a probability that policy {info.name!r} does not rank by; drop it or use "
            "low_confidence",
        )


def _check_filters(params: DecodeParams, model: LoadedModel) -> None:
    """At temperature 0 the best token survives every filter; only a confidence measured behind them still changes."""
    if params.temperature > 0 or (params.mode != "causal" and model.spec.confidence == "filtered"):
        return
    for name in ("top_p", "top_k"):
        if getattr(params, name) is not None:
            _refuse(name, f"`{name}` changes nothing at temperature 0 here; drop it or set a `temperature`")


def _draft(params: DecodeParams, model: LoadedModel, batch: int) -> Draft:
    """Drafts by themselves only where they change nothing and pay: not in half precision, where the number of rows can
    decide a close race, and not in a batch, whose requests would pay for each other's rows."""
    if params.draft != "auto":
        return params.draft
    fits = params.mode == "causal" and params.cache != "none" and not params.forced and not params.measure_drift
    return "ngram" if fits and batch == 1 and model.ngrams is not None and model.dtype.itemsize >= 4 else "none"


def _check_draft(params: DecodeParams, model: LoadedModel) -> None:
    if params.draft == "none":
        if params.draft_length is not None:
            _refuse("draft_length", "`draft_length` needs a `draft`; add draft 'lookup' or 'ngram', or drop it")
        return
    if params.draft != "lookup" and (params.draft_length or 0) > _LARGEST_TREE:
        limit = f"at most {_LARGEST_TREE} for draft {params.draft!r}"
        _refuse("draft_length", f"`draft_length` must be {limit}, got {params.draft_length}; use less")
    if params.draft == "denoiser" and model.adapter is None:
        _refuse("draft", f"draft 'denoiser' needs a model with an adapter, {model.source} has none; use draft 'ngram'")
    if params.draft == "block" and not model.spec.drafts_blocks:
        title = model.spec.title
        _refuse("draft", f"draft 'block' needs a model that denoises behind causal text, {title} does not; drop it")
    if params.mode != "causal":
        _refuse("draft", f"`draft` belongs to mode 'causal', got mode {params.mode!r}; drop it or use mode 'causal'")
    if params.cache == "none":
        _refuse("cache", "`draft` keeps what it verified, which cache 'none' forbids; use cache 'block'")
    if params.forced:
        _refuse("forced", "`forced` and `draft` do not go together yet; drop one")


def _check_steps(params: DecodeParams, *, holes: int) -> None:
    steps, block, slots = params.steps, params.block_length, params.max_new_tokens
    if steps is None:
        return
    if POLICIES[params.policy or ""].schedule in ("ancestral", "ancestral_blocks"):
        blocks = 1 if params.mode == "block" else num_blocks(slots, block)
        if steps % blocks:
            _refuse_uneven(steps, blocks, block)
        return
    if params.mode == "block":
        if block is not None and steps > block:
            _refuse(
                "steps",
                f"`steps` counts passes per block here, got {steps}; a block has {block} slots, use at most that",
            )
        return
    if steps > slots + holes:
        _refuse("steps", f"`steps` is {steps}, but only {slots + holes} slots are to be decided; use at most that")
    blocks = num_blocks(slots, block)
    if steps % blocks:
        _refuse_uneven(steps, blocks, block)


def _refuse_uneven(steps: int, blocks: int, block: int | None) -> NoReturn:
    near = [n for n in (steps // blocks * blocks, (steps // blocks + 1) * blocks) if n]
    shared = f"`steps` is shared among {blocks} blocks of {block} slots"
    _refuse("steps", f"{shared}, and {steps} is no multiple of {blocks}; use {' or '.join(map(str, near))}")
