"""Hypothesis strategies for requests: parameters that belong together, and parameters that do not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.engine.tiny import ANY_ORDER, MASK, VOCABULARY

from anyorder.canvas import Hole
from anyorder.models.families import FAMILIES
from anyorder.policies.catalog import POLICIES

TOKENS = st.integers(0, VOCABULARY - 1)
REAL_TOKENS = TOKENS.filter(lambda token: token != MASK)
CACHES = {"causal": ("block", "none"), "full": ("none", "prefix", "dual"), "block": ("block", "sub_block", "none")}

KNOBS: dict[str, st.SearchStrategy[Any]] = {
    "threshold": st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.9, 1.0]),
    "factor": st.sampled_from([0.1, 0.9, 1.0, 3.0, 100.0]),
    "entropy_bound": st.sampled_from([0.0, 0.1, 2.0, 5.0, 100.0]),
    "entropy_threshold": st.sampled_from([0.0, 0.4, 2.5, 3.0, 100.0]),
    "position_penalty": st.sampled_from([0.0, 0.02, 1.0]),
    "alg_temp": st.sampled_from([0.0, 0.1, 1.0, 1e-3]),
    "eps": st.sampled_from([1e-3, 0.5, 0.99]),
}
ALWAYS: dict[str, st.SearchStrategy[Any]] = {
    "temperature": st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    "top_p": st.sampled_from([0.1, 0.9, 1.0]),
    "top_k": st.integers(1, VOCABULARY + 5),
    "seed": st.integers(0, 3),
    "stop_ids": st.sampled_from([(), (2,), tuple(range(10)), tuple(range(VOCABULARY))]),
    "logits_eos_inf": st.booleans(),
    "logit_bias": st.dictionaries(TOKENS, st.sampled_from([-100.0, -1.0, 3.0, 100.0]), max_size=3),
    "banned_ids": st.lists(TOKENS, max_size=3).map(tuple),
}
ANYTHING: dict[str, st.SearchStrategy[Any]] = {
    **KNOBS,
    **ALWAYS,
    "mode": st.sampled_from(["auto", "causal", "full", "block"]),
    "policy": st.sampled_from([None, *POLICIES]),
    "steps": st.integers(1, 12),
    "block_length": st.integers(1, 16),
    "sub_block_length": st.sampled_from([1, 2, 4, 8]),
    "first_block_length": st.integers(1, 9),
    "edit_threshold": st.sampled_from([0.0, 0.5]),
    "edit_passes": st.integers(0, 3),
    "edit_blocks": st.integers(0, 2),
    "max_new_tokens": st.integers(0, 20),
    "growth": st.sampled_from(["fixed", "block"]),
    "window": st.sampled_from(["auto", "block", "sliding"]),
    "draft": st.sampled_from(["none", "lookup", "ngram"]),
    "draft_length": st.integers(1, 9),
    "cfg_scale": st.sampled_from([0.0, 0.5, 2.0]),
    "cache": st.sampled_from(["auto", "none", "block", "prefix", "dual", "sub_block"]),
    "measure_drift": st.booleans(),
    "confidence_eos_eot_inf": st.booleans(),
    "forced": st.dictionaries(st.integers(0, 19), TOKENS, max_size=6),
}


def prompts(*, holes: bool, min_size: int = 1, max_size: int = 12) -> st.SearchStrategy[list[int | Hole]]:
    parts: st.SearchStrategy[int | Hole] = TOKENS
    if holes:
        parts = TOKENS | st.builds(Hole, st.integers(1, 4))
    return st.lists(parts, min_size=min_size, max_size=max_size)


def has_ties(prompt: list[int | Hole]) -> bool:
    """True if slots may look exactly alike: nothing but masks is to be seen, and equal values add up to equal sums.

    Which of them comes first is then up to the last digit.
    """
    return not isinstance(prompt[0], int) or prompt[0] == MASK


@st.composite
def fitting(draw: st.DrawFn) -> tuple[str, list[int | Hole], dict[str, Any]]:
    """A family, a prompt and parameters that go together (most of the time)."""
    family = draw(st.sampled_from(ANY_ORDER))
    spec = FAMILIES[family]
    mode = draw(st.sampled_from(spec.modes))
    params: dict[str, Any] = {"mode": mode, "max_new_tokens": draw(st.integers(0, 20))}
    params["cache"] = draw(st.sampled_from([c for c in CACHES[mode] if c in spec.caches]))
    if mode != "causal":
        params |= draw(_policy(mode, params["max_new_tokens"]))
        params |= draw(_lengths(mode, params["cache"]))
        if "steps" in params or params["policy"] == "origin":  # they do not know sub-blocks
            params.pop("sub_block_length", None)
            params["cache"] = "block" if params["cache"] == "sub_block" else params["cache"]
    if spec.edits and "sub_block_length" not in params and draw(st.booleans()):
        params["edit_threshold"] = draw(st.sampled_from([0.0, 0.05, 0.1, 0.5, 1.0]))
        params["edit_passes"] = draw(st.none() | st.integers(0, 4))
        params["edit_blocks"] = draw(st.integers(0, 3)) if params["edit_passes"] != 0 else 0
    if mode == "full" and params["cache"] == "none":
        params |= draw(st.fixed_dictionaries({}, optional={"cfg_scale": ANYTHING["cfg_scale"]}))
    if mode == "causal" and params["cache"] == "block" and draw(st.booleans()):
        params |= {
            "draft": draw(st.sampled_from(["lookup", "ngram"])),
            "draft_length": draw(st.none() | st.integers(1, 6)),
        }
    if params["cache"] != "none":
        params["measure_drift"] = draw(st.booleans())
    params |= draw(st.fixed_dictionaries({}, optional=ALWAYS))
    if not params.get("temperature") and (mode == "causal" or spec.confidence == "raw"):
        params = {name: value for name, value in params.items() if name not in ("top_p", "top_k")}
    banned = {MASK, *params.get("banned_ids", ())}
    params["logit_bias"] = {t: bias for t, bias in params.get("logit_bias", {}).items() if t not in banned}
    if params["max_new_tokens"] and "draft" not in params and draw(st.booleans()):
        offsets = st.integers(0, params["max_new_tokens"] - 1)
        forced = draw(st.dictionaries(offsets, REAL_TOKENS, max_size=20))
        params["forced"] = {o: t for o, t in forced.items() if t not in params.get("banned_ids", ())}
    holes = mode != "causal" and params["cache"] not in ("prefix", "dual") and draw(st.booleans())
    return family, draw(prompts(holes=holes)), params


@st.composite
def _policy(draw: st.DrawFn, mode: str, slots: int) -> dict[str, Any]:
    info = POLICIES[draw(st.sampled_from(sorted(POLICIES)))]
    params: dict[str, Any] = {"policy": info.name}
    for name in info.reads:
        if name in KNOBS and draw(st.booleans()):
            params[name] = draw(KNOBS[name])
    if "steps" in info.reads and draw(st.booleans()):
        params["steps"] = draw(st.integers(1, max(1, min(slots, 8 if mode == "full" else 4))))
    if info.score == "probability" and info.name != "sequential":
        params["confidence_eos_eot_inf"] = draw(st.booleans())
    return params


@st.composite
def _lengths(draw: st.DrawFn, mode: str, cache: str) -> dict[str, Any]:
    if mode == "full":
        params: dict[str, Any] = {"growth": draw(st.sampled_from(["fixed", "block"]))}
        if draw(st.booleans()):
            params["block_length"] = draw(st.integers(1, 16))
        return params
    sub = draw(st.sampled_from([1, 2, 3, 4]))
    times = draw(st.integers(2 if cache == "sub_block" else 1, 4))
    return {"block_length": sub * times, "sub_block_length": sub} if draw(st.booleans()) else {}


@st.composite
def anything(draw: st.DrawFn) -> tuple[str, list[int | Hole], dict[str, Any]]:
    """A few parameters that nobody would give together."""
    names = draw(st.lists(st.sampled_from(sorted(ANYTHING)), max_size=5, unique=True))
    params = {"max_new_tokens": 9} | {name: draw(ANYTHING[name]) for name in names}
    return draw(st.sampled_from(ANY_ORDER)), draw(prompts(holes=draw(st.booleans()))), params
