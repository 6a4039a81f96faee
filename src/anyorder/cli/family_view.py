"""What a family is and can do, as data and as lines, for commands and documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyorder.cache.schemes import SCHEMES

if TYPE_CHECKING:
    from anyorder.models.spec import FamilySpec


def abilities(spec: FamilySpec) -> dict[str, Any]:
    """What its spec alone says, JSON-able."""
    return {
        "inputs": list(spec.inputs),
        "attention": spec.attention,
        "blocks_both_ways": spec.blocks_both_ways,
        "shifted_logits": spec.shift,
        "mask_token": spec.mask_token,
        "modes": list(spec.modes),
        "default_mode": spec.decoder,
        "default_policy": spec.policy,
        "caches": list(spec.caches),
        "exact_caches": [name for name in spec.caches if SCHEMES[name].exact],
        "infill": spec.infill,
        "source": spec.source,
    }


def facts_of_family(spec: FamilySpec) -> dict[str, Any]:
    """Everything about a family, JSON-able.

    Raises:
        KeyError: `models.catalog` has no entry for it.
    """
    from anyorder.models.catalog import CATALOG
    from anyorder.models.quantised import SCHEMES as QUANTISED

    entry = CATALOG[spec.name]
    return {
        "family": spec.name,
        "title": spec.title,
        "checkpoints": list(entry.checkpoints),
        "architectures": list(spec.architectures),
        "network": entry.network,
        **abilities(spec),
        "noise": spec.noise,
        "mask_token_id": spec.mask_token_id,
        "mask": _mask(spec),
        "block_length": spec.block_length,
        "drafts": drafts(spec, adapter=entry.adapter),
        "edits": spec.edits,
        "adapter": entry.adapter,
        "training": entry.training,
        "quantised": list(QUANTISED) if entry.quantised else [],
        "proof": list(entry.proof),
    }


def drafts(spec: FamilySpec, *, adapter: bool) -> list[str]:
    """Values of `draft` that the causal mode takes.

    Args:
        adapter: the network can have one; the draft `denoiser` needs it.
    """
    if "causal" not in spec.modes:
        return []
    return ["lookup", "ngram", *(["denoiser"] if adapter else []), *(["block"] if spec.drafts_blocks else [])]


def _mask(spec: FamilySpec) -> str:
    """The mask token in a word."""
    if spec.mask_token is not None:
        return spec.mask_token
    if spec.mask_token_id is not None:
        return f"id {spec.mask_token_id}"
    return "last row" if spec.mask_is_last else "none" if spec.noise == "uniform" else "stand-in"


def with_default(names: list[str], default: str) -> str:
    """The names, the default marked."""
    return ", ".join(f"{name} (default)" if name == default else name for name in names)


def caches(facts: dict[str, Any]) -> str:
    """The caches that promise the logits of an uncached pass, then the others."""
    inexact = [name for name in facts["caches"] if name not in facts["exact_caches"]]
    return ", ".join(facts["exact_caches"]) + (f"; inexact: {', '.join(inexact)}" if inexact else "")


def attention(facts: dict[str, Any]) -> str:
    """What a token looks at, and which token its row predicts."""
    blocks = ", blocks both ways behind it" if facts["blocks_both_ways"] else ""
    return facts["attention"] + blocks + (", logits shifted by one" if facts["shifted_logits"] else "")


def supported(facts: dict[str, Any]) -> list[str]:
    """What it can do besides decoding and filling gaps."""
    words = [name for name in ("edits", "adapter", "training") if facts[name]]
    return [*words, *facts["quantised"], *([f"drafts {' '.join(facts['drafts'])}"] if facts["drafts"] else [])]
