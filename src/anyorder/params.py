"""How to decode: one frozen record, checked once where the user is. Free of torch, so that `--help` is instant."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from anyorder.errors import ParameterError
from anyorder.policies.catalog import POLICIES
from anyorder.policies.noise import Noise

Mode = Literal["auto", "causal", "full", "block"]
CacheName = Literal["auto", "none", "block", "prefix", "dual", "sub_block"]
Growth = Literal["fixed", "block"]
Sliding = Literal["auto", "block", "sliding"]
Draft = Literal["auto", "none", "lookup", "ngram", "denoiser", "block"]


@dataclass(frozen=True, kw_only=True)
class DecodeParams:
    """Everything that shapes an answer; `None` and "auto" mean the default of the model's family."""

    mode: Mode = "auto"
    """Decoder: causal (one token at a time), full (the whole canvas at once), block (block after block)."""

    policy: str | None = None
    """Which proposals a pass commits, by published name: threshold, entropy_bound, low_confidence, maskgit_plus, ..."""

    steps: int | None = None
    """Passes of a scheduled policy: per answer for LLaDA and Dream, per block for SDAR. None: one slot per pass."""

    threshold: float | None = None
    """Commit proposals at least this sure, in [0, 1]. Published: 0.9 (LLaDA, Dream, Fast-dLLM v2), 0.85 (SDAR)."""

    factor: float | None = None
    """Commit the r surest slots while the r-th is 1 - factor / (r + 1) sure; > 0, published 1."""

    entropy_bound: float | None = None
    """Joint error allowed per pass, in nats; >= 0, published 0.1."""

    entropy_threshold: float | None = None
    """Commit slots of less entropy than this, in nats; >= 0, published 0.4 (WeDLM). At 0 one slot per pass."""

    position_penalty: float | None = None
    """Entropy, in nats per slot, added for the distance from the first open slot; >= 0, published 0.02 (WeDLM)."""

    alg_temp: float | None = None
    """Draw the slots to commit with probability proportional to exp(score / alg_temp) (Dream); None: take the best."""

    eps: float | None = None
    """End of the time grid, in (0, 1); published 0.001 (Dream), 0.00001 (MDLM)."""

    noise: Noise | None = None
    """Share of masked slots over time, for ddpm and ddpm_cache: loglinear (published), cosine, square, square_root,
    log."""

    block_length: int | None = None
    """Slots per block. Fixed by the training of block models; free for LLaDA and Dream."""

    sub_block_length: int | None = None
    """Slots per sub-block inside a block (Fast-dLLM v2: 8); must divide block_length."""

    edit_threshold: float | None = None
    """Replace committed tokens of the block that now read otherwise with more than this probability, in [0, 1]
    (LLaDA2.1: 0.5, fast 0). None: what is committed stays."""

    edit_passes: int | None = None
    """Most passes over a full block that may still edit it; >= 0, published 16 (over several blocks 5)."""

    edit_blocks: int = 0
    """Blocks before a full one that are read again together with it, and may still be edited (LLaDA2.1's multi-block
    editing, published 1); text is streamed so many blocks later. 0: a finished block stays."""

    t_min: float | None = None
    """Temperature of the last pass over a canvas of noise (DiffusionGemma); published 0.4. `temperature` above 0 takes
    the place of both."""

    t_max: float | None = None
    """Temperature of the first pass over a canvas of noise; published 0.8."""

    stability_threshold: int | None = None
    """A canvas of noise is finished when its best tokens have stayed the same for so many passes, and its entropy is
    low; published 1."""

    confidence_threshold: float | None = None
    """Mean entropy, in nats, below which a canvas of noise may be finished; published 0.005."""

    max_new_tokens: int = 128
    """Longest answer in tokens; the canvas behind the prompt has this many slots. 0 only with holes in the prompt."""

    first_block_length: int | None = None
    """Full canvas only: slots of the first block, so that there is something to read early. None: as the others. The
    answer may be another one."""

    growth: Growth = "fixed"
    """Full canvas only: show the model all answer slots from the start (fixed) or open them block by block (block)."""

    window: Sliding = "auto"
    """WeDLM only: open the next block when a block is full (block), or a slot for every slot that is finished, so that
    `block_length` are in sight (sliding). auto: as published, sliding for policy entropy_threshold, else block."""

    draft: Draft = "auto"
    """Causal only: guess tokens, verify them in one pass: same text, fewer passes. lookup copies from the context;
    ngram grows a tree of what followed there and in texts of the model's own, where it brings a table; denoiser grows
    it with the forecasts of masks in the same pass, for a model with an adapter; block denoises a block in a pass of
    its own, for Nemotron-Labs-Diffusion. auto takes ngram for a single prompt of a model with a table in float32, where
    the text is the same to the last token, and otherwise none."""

    draft_length: int | None = None
    """Most tokens drafted per pass; None: 3 for lookup, a block less its first token for block, and for trees as many
    as pay off on the device."""

    temperature: float = 0.0
    """0 takes the best token, on a canvas of noise the temperatures `t_max` to `t_min`; 0.001 to 1000 samples from
    softmax(logits / temperature)."""

    top_p: float | None = None
    """Sample from the most probable tokens that reach this probability together, in (0, 1]."""

    top_k: int | None = None
    """Sample from the k most probable tokens."""

    top_logprobs: int = 0
    """Report the 0 to 20 likeliest tokens of every committed slot, with their probabilities at that pass."""

    seed: int = 0
    """Same seed, same answer, alone or in any batch."""

    cfg_scale: float = 0.0
    """Classifier-free guidance away from the unprompted model (LLaDA); 0 is off and costs nothing."""

    cache: CacheName = "auto"
    """Which keys and values are kept between passes: none and block are exact, prefix, dual and sub_block are not."""

    measure_drift: bool = False
    """Run every cached pass a second time without cache and report the difference of the logits."""

    stop_ids: tuple[int, ...] | None = None
    """Token ids that end the answer; None: those of the model. () never stops early."""

    logits_eos_inf: bool = False
    """Never propose the end-of-text token (LLaDA)."""

    confidence_eos_eot_inf: bool = False
    """Commit end-of-text and end-of-turn tokens last (LLaDA)."""

    logit_bias: Mapping[int, float] = field(default_factory=dict[int, float])
    """Added to the logit of a token id, each in [-100, 100]."""

    banned_ids: tuple[int, ...] = ()
    """Token ids that are never produced."""

    forced: Mapping[int, int] = field(default_factory=dict[int, int])
    """Token ids fixed in advance: answer offset -> id."""

    def __post_init__(self) -> None:
        for checks in (_FIELD_CHECKS, _RELATION_CHECKS):
            faults = [fault for check in checks for fault in [check(self)] if fault is not None]
            if faults:
                raise ParameterError("; ".join(text for _, text in faults), param=faults[0][0])

    def replace(self, **changes: Any) -> DecodeParams:
        """A copy with some fields changed; unknown names are refused with the nearest known one."""
        check_names(changes)
        return replace(self, **changes)

    @classmethod
    def of(cls, params: DecodeParams | None = None, **changes: Any) -> DecodeParams:
        """`params` (or the defaults) with `changes`."""
        if params is not None and not isinstance(params, cls):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParameterError(
                f"`params` must be a DecodeParams, got {type(params).__name__}; give its fields as keyword arguments",
                param="params",
            )
        return (params or cls()).replace(**changes)


def check_names(changes: Mapping[str, Any]) -> None:
    """Refuse names that are no DecodeParams field."""
    known = [f.name for f in fields(DecodeParams)]
    for name in changes:
        if name not in known:
            raise ParameterError(f"unknown parameter {name!r}{did_you_mean(name, known)}", param=name)


def did_you_mean(name: str, known: list[str]) -> str:
    """The tail of an error about an unknown name."""
    near = difflib.get_close_matches(name, known, n=1)
    return (f"; did you mean {near[0]!r}?" if near else ";") + f" Known: {', '.join(sorted(known))}"


KNOBS = (
    "steps", "threshold", "factor", "entropy_bound", "entropy_threshold", "position_penalty", "alg_temp", "eps",
    "noise",
)  # fmt: skip
"""What some policies read."""

_Fault = tuple[str, str] | None
_Check = Callable[[DecodeParams], _Fault]


def _number(
    name: str, allowed: str, accepts: Callable[[float], bool], *, whole: bool = False, optional: bool = True
) -> _Check:
    kinds = (int,) if whole else (int, float)

    def check(params: DecodeParams) -> _Fault:
        value = getattr(params, name)
        if value is None and optional:
            return None
        if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value) or not accepts(value):
            return name, f"`{name}` must be {allowed}, got {value!r}"
        return None

    return check


def _choice(name: str, values: tuple[str | None, ...]) -> _Check:
    def check(params: DecodeParams) -> _Fault:
        value = getattr(params, name)
        known = ", ".join(name for name in values if name is not None)
        return None if value in values else (name, f"`{name}` must be one of {known}, got {value!r}")

    return check


def _flag(name: str) -> _Check:
    def check(params: DecodeParams) -> _Fault:
        value = getattr(params, name)
        return None if isinstance(value, bool) else (name, f"`{name}` must be True or False, got {value!r}")

    return check


def _known_policy(params: DecodeParams) -> _Fault:
    if params.policy is None or params.policy in list(POLICIES):
        return None
    return "policy", f"unknown policy {params.policy!r}{did_you_mean(str(params.policy), list(POLICIES))}"


def _policy_reads(params: DecodeParams) -> _Fault:
    """A knob that the named policy does not read is a contradiction, not a detail."""
    info = POLICIES.get(params.policy or "")
    if info is None:
        return None
    for name in KNOBS:
        if getattr(params, name) is not None and name not in info.reads:
            takers = [other.name for other in POLICIES.values() if name in other.reads]
            return name, f"policy {info.name!r} does not read `{name}`; drop it or use one of {', '.join(takers)}"
    return None


def _sub_block_divides(params: DecodeParams) -> _Fault:
    block, sub = params.block_length, params.sub_block_length
    if block is None or sub is None or block < 1 or sub < 1 or block % sub == 0:
        return None
    return "sub_block_length", f"`sub_block_length` {sub} does not divide `block_length` {block}; use a divisor"


def _edit_passes_edit(params: DecodeParams) -> _Fault:
    if params.edit_passes is None or params.edit_threshold is not None:
        return None
    return "edit_passes", "`edit_passes` is about edits, which `edit_threshold` switches on; give it, or drop this"


def _edit_blocks_edit(params: DecodeParams) -> _Fault:
    if not params.edit_blocks:
        return None
    if params.edit_threshold is None:
        return "edit_blocks", "`edit_blocks` is about edits, which `edit_threshold` switches on; give it, or drop this"
    if params.edit_passes == 0:
        return "edit_passes", "`edit_passes` 0 leaves no pass in which `edit_blocks` could edit; raise it or drop one"
    return None


def _temperatures_fall(params: DecodeParams) -> _Fault:
    if params.t_min is None or params.t_max is None or params.t_min <= params.t_max:
        return None
    return "t_min", f"`t_min` {params.t_min} is above `t_max` {params.t_max}; the temperature falls from t_max to t_min"


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _token_ids(name: str, *, optional: bool = False) -> _Check:
    def check(params: DecodeParams) -> _Fault:
        ids = getattr(params, name)
        if ids is None and optional:
            return None
        if not isinstance(ids, tuple | list):
            return name, f"`{name}` must be a tuple of token ids, got {ids!r}"
        bad = [i for i in ids if not _is_id(i)]
        return (name, f"`{name}` must hold token ids (integers >= 0), got {bad[0]!r}") if bad else None

    return check


def _biases(params: DecodeParams) -> _Fault:
    name, biases = "logit_bias", _mapping(params.logit_bias)
    if biases is None:
        return name, f"`{name}` must map token ids to numbers, got {params.logit_bias!r}"
    for token, value in biases.items():
        if not _is_id(token):
            return name, f"`{name}` must hold token ids (integers >= 0), got {token!r}"
        if isinstance(value, bool) or not isinstance(value, int | float) or not -100 <= value <= 100:
            return name, f"`{name}` values must be in [-100, 100], got {value!r}; use banned_ids to ban"
    return None


def _forced(params: DecodeParams) -> _Fault:
    forced = _mapping(params.forced)
    if forced is None:
        return "forced", f"`forced` must map answer offsets to token ids, got {params.forced!r}"
    for offset, token in forced.items():
        if not _is_id(offset):
            return "forced", f"`forced` must name answer offsets (integers >= 0), got {offset!r}"
        if not _is_id(token):
            return "forced", f"`forced` must hold token ids (integers >= 0), got {token!r}"
    return None


def _mapping(value: object) -> Mapping[Any, Any] | None:
    return value if isinstance(value, Mapping) else None


def _forced_offsets(params: DecodeParams) -> _Fault:
    for offset, token in params.forced.items():
        if offset >= params.max_new_tokens:
            allowed = f"answer offsets below max_new_tokens ({params.max_new_tokens})"
            return "forced", f"`forced` must name {allowed}, got {offset}; raise max_new_tokens or drop it"
        if token in params.banned_ids:
            return "forced", f"token id {token} is both forced and banned; drop one"
    return None


def _biased_or_banned(params: DecodeParams) -> _Fault:
    both = sorted(set(params.logit_bias) & set(params.banned_ids))
    return ("logit_bias", f"token id {both[0]} has a logit_bias and is banned; drop one") if both else None


_TEMPERATURES = "0, or from 0.001 to 1000"  # what float32 logits can be divided by

_FIELD_CHECKS: tuple[_Check, ...] = (
    _choice("mode", get_args(Mode)),
    _choice("cache", get_args(CacheName)),
    _choice("growth", get_args(Growth)),
    _choice("window", get_args(Sliding)),
    _choice("draft", get_args(Draft)),
    _number("draft_length", "a whole number of at least 1", lambda v: v >= 1, whole=True),
    _known_policy,
    _number("steps", "a whole number of at least 1", lambda v: v >= 1, whole=True),
    _number("threshold", "in [0, 1]; 0.9 is the published default", lambda v: 0 <= v <= 1),
    _number("factor", "above 0; 1 is the published default", lambda v: v > 0),
    _number("entropy_bound", "at least 0 (nats); 0.1 is the published default", lambda v: v >= 0),
    _number("entropy_threshold", "at least 0 (nats); 0.4 is the published default", lambda v: v >= 0),
    _number("position_penalty", "at least 0 (nats per slot); 0.02 is the published default", lambda v: v >= 0),
    _number("alg_temp", _TEMPERATURES, lambda v: v == 0 or 1e-3 <= v <= 1e3),
    _number("eps", "in (0, 1); 0.001 is the published default", lambda v: 0 < v < 1),
    _choice("noise", (*get_args(Noise), None)),
    _number("block_length", "a whole number of at least 1", lambda v: v >= 1, whole=True),
    _number("sub_block_length", "a whole number of at least 1", lambda v: v >= 1, whole=True),
    _number("first_block_length", "a whole number of at least 1", lambda v: v >= 1, whole=True),
    _number("edit_threshold", "in [0, 1]; 0.5 is published for LLaDA2.1", lambda v: 0 <= v <= 1),
    _number("edit_passes", "a whole number of at least 0; 16 is the published default", lambda v: v >= 0, whole=True),
    _number(
        "edit_blocks", "a whole number of at least 0; 1 is published", lambda v: v >= 0, whole=True, optional=False
    ),
    _number("t_min", "from 0.001 to 1000; 0.4 is the published default", lambda v: 1e-3 <= v <= 1e3),
    _number("t_max", "from 0.001 to 1000; 0.8 is the published default", lambda v: 1e-3 <= v <= 1e3),
    _number("stability_threshold", "a whole number of at least 0", lambda v: v >= 0, whole=True),
    _number("confidence_threshold", "at least 0 (nats); 0.005 is the published default", lambda v: v >= 0),
    _number("max_new_tokens", "a whole number of at least 0", lambda v: v >= 0, whole=True, optional=False),
    _number("temperature", _TEMPERATURES, lambda v: v == 0 or 1e-3 <= v <= 1e3, optional=False),
    _number("top_p", "in (0, 1]", lambda v: 0 < v <= 1),
    _number("top_k", "a whole number of at least 1; leave it out to keep all tokens", lambda v: v >= 1, whole=True),
    _number("seed", "a whole number from 0 to 2^63 - 1", lambda v: 0 <= v < 2**63, whole=True, optional=False),
    _number("top_logprobs", "a whole number from 0 to 20", lambda v: 0 <= v <= 20, whole=True, optional=False),
    _number("cfg_scale", "in [0, 100]", lambda v: 0 <= v <= 100, optional=False),
    _flag("measure_drift"),
    _flag("logits_eos_inf"),
    _flag("confidence_eos_eot_inf"),
    _token_ids("stop_ids", optional=True),
    _token_ids("banned_ids"),
    _biases,
    _forced,
)
"""What one field may hold."""

_RELATION_CHECKS: tuple[_Check, ...] = (
    _policy_reads,
    _sub_block_divides,
    _edit_passes_edit,
    _edit_blocks_edit,
    _temperatures_fall,
    _forced_offsets,
    _biased_or_banned,
)
"""Fields against each other; run when each by itself is fine."""
