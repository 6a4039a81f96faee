"""Settings that were published under a name of their own. Free of torch, so that the command line can list them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Preset:
    """Decode parameters that go together."""

    name: str
    summary: str
    params: Mapping[str, float | int]
    """Fields of `DecodeParams`."""
    source: str


def _preset(name: str, summary: str, source: str, **params: float | int) -> Preset:
    return Preset(name, summary, MappingProxyType(params), source)


_LLADA21 = "its README; arXiv:2602.08676"

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        _preset("llada2.0", "LLaDA2.0: what is committed stays", "its `generate`; arXiv:2512.15745", threshold=0.95),
        _preset("llada2.1-quality", "LLaDA2.1's Q mode: fewer tokens per pass, corrections that are sure", _LLADA21,
                threshold=0.7, edit_threshold=0.5, edit_passes=16),
        _preset("llada2.1-speed", "LLaDA2.1's S mode: a bold draft, and every other reading corrects it", _LLADA21,
                threshold=0.5, edit_threshold=0.0, edit_passes=16),
        _preset("llada2.1-multi-block", "S mode; a full block corrects the one before it, too", "arXiv:2607.22663",
                threshold=0.5, edit_threshold=0.0, edit_blocks=1),
    )
}  # fmt: skip
"""Name -> preset."""
