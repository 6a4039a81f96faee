"""The line of figures under an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyorder.generation import Generation


def figures(generation: Generation) -> str:
    """Passes, tokens per forward, positions, times to first and last token, tokens per second; drift if measured."""
    stats = generation.stats
    parts = [
        f"{stats.passes} passes",
        f"{stats.tokens_per_forward:.2f} tokens/pass",
        f"{stats.positions:,} positions",
        f"first {stats.time_to_first_s:.2f} s",
        f"last {stats.time_to_last_s:.2f} s",
        f"{stats.tokens_per_second:.1f} tokens/s",
    ]
    if stats.drift_max is not None:
        parts.append(f"drift max {stats.drift_max:.3g} mean {stats.drift_mean:.3g}")
    if generation.finish_reason == "length":
        parts.append("cut at max-new-tokens")
    return " · ".join(parts)
