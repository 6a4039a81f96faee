"""Registry of the families and the recognition of a checkpoint by its config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from anyorder.errors import ModelError, UnknownFamily
from anyorder.models.config import ModelConfig
from anyorder.models.families import (
    bd3lm,
    diffusion_gemma,
    dream,
    efficient_dlm,
    fast_dllm_v2,
    llada,
    llada2_moe,
    llada_moe,
    llama,
    mdlm,
    nemotron_labs_diffusion,
    qwen2,
    qwen3,
    qwen3_moe,
    sdar,
    sdar_moe,
    stable_diffcoder,
    wedlm,
)
from anyorder.models.families.converted import converted
from anyorder.models.spec import FamilySpec


def _parsed(spec: FamilySpec, raw: Mapping[str, Any]) -> ModelConfig:
    """Its config; errors name the family."""
    try:
        return spec.parse(raw)
    except ModelError as error:
        raise ModelError(f"{spec.name} ({spec.title}): {error}") from None


FAMILIES: dict[str, FamilySpec] = {
    spec.name: replace(spec, parse=partial(_parsed, spec))
    for spec in (
        llama.SPEC,
        qwen2.SPEC,
        qwen3.SPEC,
        qwen3_moe.SPEC,
        llada.SPEC,
        dream.SPEC,
        fast_dllm_v2.SPEC,
        efficient_dlm.SPEC,
        sdar.SPEC,
        sdar_moe.SPEC,
        stable_diffcoder.SPEC,
        nemotron_labs_diffusion.SPEC,
        wedlm.SPEC,
        llada_moe.SPEC,
        llada2_moe.SPEC,
        mdlm.SPEC,
        bd3lm.SPEC,
        diffusion_gemma.SPEC,
    )
}

LATER: tuple[str, ...] = ("LlavaLLaDA", "MMada")
"""Beginnings of architecture names of diffusion models that exist but cannot be loaded yet: LLaDA-V, MMaDA."""


def recognise(raw: Mapping[str, Any]) -> FamilySpec:
    """The family of a config.json: by `architectures[0]`; by `model_type` only when no architecture is named.

    A checkpoint that was converted here is of the family that it was converted from, with the facts of its conversion.

    Raises:
        UnknownFamily: nothing matches; the message names what was given and what is known.
        ModelError: it says in a damaged way how it was converted.
    """
    architecture, model_type = _architecture(raw), raw.get("model_type")
    for spec in FAMILIES.values():
        named = architecture in spec.architectures if architecture else model_type in spec.model_types
        if named:
            return converted(spec, raw)
    raise UnknownFamily(_explain(architecture, model_type))


def _architecture(raw: Mapping[str, Any]) -> str | None:
    names = raw.get("architectures") or ()
    return str(names[0]) if names else None


def _explain(architecture: str | None, model_type: object) -> str:
    given = f"architecture {architecture!r} (model_type {model_type!r})"
    if architecture and architecture.startswith(LATER):
        return (
            f"{given} is a diffusion model that is not supported yet; supported: {', '.join(FAMILIES)}; "
            "this one needs its own code"
        )
    known = ", ".join(name for spec in FAMILIES.values() for name in spec.architectures)
    return f"unknown {given} in config.json; known architectures: {known}"
