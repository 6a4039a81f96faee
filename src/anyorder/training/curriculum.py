"""Block lengths that change over a run: pure functions of the step, for objectives to ask."""

from __future__ import annotations

from dataclasses import dataclass

from anyorder.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class BlockCurriculum:
    """Warm-up, stable, decay of the block length.

    A converted autoregressive model begins with short blocks, which are close to what it knows, learns to denoise long
    ones, and ends with the length that it will decode with. LLaDA2.0 goes through 1, 4, 32 and 64 to 4096, stays there,
    and comes back down to 32.

    Raises:
        ParameterError: a length is not positive, there is none, or the phases do not fit into the run.
    Source: LLaDA2.0, arXiv:2512.15745; how many steps a length gets is not published, here all of a phase get the same.
    """

    steps: int
    """Of the whole run."""
    stable: int
    """Block length between the phases."""
    warmup: tuple[int, ...] = ()
    """Block lengths of the warm-up, in their order."""
    warmup_steps: int = 0
    """Of all of them together."""
    decay: tuple[int, ...] = ()
    """Block lengths of the decay, in their order; the last one is what the model decodes with."""
    decay_steps: int = 0
    """Of all of them together."""

    def __post_init__(self) -> None:
        for name, lengths, count in (
            ("warmup", self.warmup, self.warmup_steps),
            ("decay", self.decay, self.decay_steps),
        ):
            if count < len(lengths) or bool(count) != bool(lengths):
                raise ParameterError(
                    f"`{name}_steps` must be 0 without lengths, and at least 1 for each of {len(lengths)}, got {count}",
                    param=f"{name}_steps",
                )
        if any(length < 1 for length in (*self.warmup, self.stable, *self.decay)):
            raise ParameterError("block lengths must be positive integers", param="stable")
        if self.warmup_steps + self.decay_steps > self.steps:
            raise ParameterError(
                f"warm-up ({self.warmup_steps}) and decay ({self.decay_steps}) are more than all {self.steps} steps",
                param="steps",
            )

    def block_length(self, step: int) -> int:
        """The block length of a step; the first one is 0."""
        if step < self.warmup_steps:
            return self.warmup[step * len(self.warmup) // self.warmup_steps]
        into = step - (self.steps - self.decay_steps)
        if into < 0 or not self.decay:
            return self.stable
        return self.decay[min(into * len(self.decay) // self.decay_steps, len(self.decay) - 1)]
