"""Checkpoints that were trained to denoise after their family was published: config.json says how, under `diffusion`.

The weights keep the architecture that they had, so that any code for it reads them. What changes is what a decoder must
know: which attention to denoise with, and whether rows predict their own token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from anyorder.errors import ModelError
from anyorder.models.spec import FamilySpec

KEY = "diffusion"
"""Of config.json. `mask_token_id` and `block_length` stand beside it, where published checkpoints have them, too."""

Regime = Literal["bidirectional", "block", "causal"]
Context = Literal["block", "causal"]
Mode = Literal["causal", "full", "block"]


@dataclass(frozen=True, kw_only=True)
class Denoising:
    """How a checkpoint was trained to denoise."""

    attention: Regime
    """"causal": it was not, or in a way that no decoder here can use; it decodes as its family does."""
    shift: bool
    """Rows predict the next token."""
    context: Context = "block"
    """What finished blocks see: their own block too, or only what is left of them, as in the causal mode."""
    causal: bool = False
    """Its causal mode was trained as well."""

    def table(self) -> dict[str, Any]:
        """What config.json says of it."""
        return asdict(self)


def converted(spec: FamilySpec, raw: Mapping[str, Any]) -> FamilySpec:
    """The family of a checkpoint, with what its config.json says of how it was converted.

    Raises:
        ModelError: `diffusion` does not hold what this package writes there.
    """
    table = raw.get(KEY)
    if table is None:
        return spec
    denoising = _read(table)
    if denoising.attention == "causal":
        return replace(spec, modes=("causal",), decoder="causal")
    causal: tuple[Mode, ...] = ("causal",) if denoising.causal else ()
    mode = "full" if denoising.attention == "bidirectional" else "block"
    behind_causal = mode == "block" and denoising.context == "causal"
    if mode == "full":
        caches = ("none", "prefix", "dual", *(("block",) if causal else ()))
    else:
        caches = ("none", "block", "sub_block")
    return replace(
        spec,
        title=f"{spec.title}, converted to {mode} diffusion",
        attention="causal" if behind_causal else denoising.attention,
        blocks_both_ways=behind_causal,
        shift=denoising.shift,
        decoder=mode,
        modes=(mode, *causal),
        policy="threshold",
        caches=caches,
        confidence="raw",
        infill=mode == "full",
        block_keys=("block_length",),
    )


def _read(table: object) -> Denoising:
    """What `Denoising.table` wrote; nothing else, and nothing left out."""
    allowed = {name: get_args(hint) for name, hint in (("attention", Regime), ("context", Context))}
    if not isinstance(table, dict) or table.keys() != {field.name for field in fields(Denoising)}:
        raise _damaged(table)
    flags = all(isinstance(table[name], bool) for name in ("shift", "causal"))
    if not flags or any(table[name] not in values for name, values in allowed.items()):
        raise _damaged(table)
    return Denoising(**table)


def _damaged(table: object) -> ModelError:
    return ModelError(
        f'config.json: {KEY} must hold "attention" ({", ".join(get_args(Regime))}), "context" '
        f'({", ".join(get_args(Context))}), "shift" and "causal" (true or false), got {table!r}'
    )
