"""The line of figures under an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyorder.generation import Generation


def figures(generation: Generation) -> str:
    """Passes, tokens per forward, positions, time to first and last token, tokens per second; and what else matters.

    The first line fits into 80 columns up to some thousand positions; drift and a cut answer have lines of their own.
    """
    stats = generation.stats
    parts = [
        f"{stats.passes} passes",
        f"{stats.tokens_per_forward:.2f} tok/pass",
        f"{stats.positions:,} positions",
        f"first {_seconds(stats.time_to_first_s)}",
        f"last {_seconds(stats.time_to_last_s)}",
        f"{stats.tokens_per_second:.1f} tok/s",
    ]
    lines = ["  ".join(parts)]
    if stats.drift_max is not None:
        lines.append(
            f"drift of the logits by cache {stats.cache}: max {stats.drift_max:.3g}, mean {stats.drift_mean:.3g}"
        )
    if generation.finish_reason == "length" and generation.ids:
        lines.append("the answer was cut at --max-new-tokens")
    return "\n".join(lines)


def _seconds(seconds: float) -> str:
    """`1.47 s`, `35.5 s`, `120 s`."""
    return f"{seconds:.{2 if seconds < 10 else 1 if seconds < 100 else 0}f} s"
