"""How many slots a pass should commit when `steps` is given, exactly as each family defines it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyorder.policies.catalog import Schedule
from anyorder.policies.noise import Noise, revealed


def even(slots: int, steps: int) -> list[int]:
    """`slots // steps` per pass; the first `slots % steps` passes take one more.

    Source: LLaDA's `get_num_transfer_tokens`; SDAR and LLaDA2 use the same per block.
    """
    base, extra = divmod(slots, steps)
    return [base + (step < extra) for step in range(steps)]


def transfer_probability(step: int, steps: int, eps: float) -> float:
    """Share of the masks that pass `step` removes on the time grid 1 ... eps; 1 from the last step on.

    float32 as in the published code: quotas are truncated, so the last digit can matter.

    Args:
        step: 0-based pass.
        eps: end of the time grid, > 0; it makes the first passes commit slightly less than an even share.
    Source: Dream, `_sample`.
    """
    if step >= steps - 1:
        return 1.0
    times = torch.linspace(1, eps, steps + 1)
    return float(1 - times[step + 1] / times[step])


def timesteps(open_count: int, step: int, steps: int, eps: float) -> int:
    """Slots that pass `step` commits of `open_count` open ones; it may be 0 (with steps = slots it is, at first).

    Source: Dream, `_sample`.
    """
    return int(torch.tensor(float(open_count)) * torch.tensor(transfer_probability(step, steps, eps)))


def budget(open_count: int, total: int, step: int, steps: int) -> int:
    """Largest number of slots that pass `step` may commit: the even share plus what earlier passes left over.

    From the last scheduled pass on all open slots are within the budget, and the loop goes on until none is left.

    Args:
        open_count: slots open before this pass.
        total: slots open before the first pass.
    Source: Fast-dLLM's `confidence_threshold` for Dream (which demands that `steps` divides `total`).
    """
    return open_count - total // steps * max(steps - 1 - step, 0)


def ancestral(step: int, steps: int, eps: float, noise: Noise) -> float:
    """Chance per masked slot of being revealed in pass `step` on the time grid 1 ... eps; 1 behind its end.

    Source: MDLM, `_sample` (with `noise_removal`: what is masked at time eps is filled in one more pass).
    """
    if step >= steps:
        return 1.0
    length = (1 - eps) / steps
    time = 1 - step * length
    return revealed(noise, time, time - length)


def ancestral_blocks(step: int, steps: int, noise: Noise) -> float:
    """The same for steps of 1 / `steps` from the times 1 ... 0 that are evenly apart; 1 at time 0.

    The published sampler divides by 0 there and writes token 0 into what is still masked; here it is sampled.

    Source: BD3-LM, `_semi_ar_sampler`.
    """
    if step >= steps - 1:
        return 1.0
    time = 1 - step / (steps - 1)
    return revealed(noise, time, time - 1 / steps)


@dataclass(frozen=True, kw_only=True)
class PassSchedule:
    """The shares of the passes over one block (or one canvas).

    Args:
        kind: of the policy.
        total: slots that the schedule divides.
        steps: passes; None gives every pass one slot.
        eps: end of the time grid.
        noise: share of masked slots over time; only ancestral schedules read it.
    """

    kind: Schedule
    total: int
    steps: int | None = None
    eps: float = 1e-3
    noise: Noise = "loglinear"

    @property
    def ancestral(self) -> bool:
        """Whether a pass decides about a slot follows from random numbers alone, so idle passes need no forward."""
        return self.kind in ("ancestral", "ancestral_blocks")

    def ends(self, step: int) -> bool:
        """True for the pass that is left for what an ancestral schedule did not reveal: the best token everywhere."""
        return self.kind == "ancestral" and step >= self.passes

    @property
    def passes(self) -> int:
        """Scheduled passes, at least one."""
        return self.steps or max(self.total, 1)

    def quota(self, step: int, open_count: int) -> int:
        """Slots that pass `step` commits while `open_count` are open; further passes go on with the last share."""
        match self.kind:
            case "none" | "ancestral" | "ancestral_blocks":
                return open_count
            case "even":
                shares = even(self.total, self.passes)
                return max(1, shares[min(step, self.passes - 1)])  # 0 with more steps than slots
            case "timesteps":
                # the time grid with as many steps as slots begins with a pass of 0 slots and ends with one of 2
                return 1 if self.steps is None else timesteps(open_count, step, self.steps, self.eps)
            case "budget":
                return budget(open_count, self.total, step, self.passes)

    def probability(self, step: int) -> float:
        """Chance per slot of being committed in pass `step`."""
        match self.kind:
            case "ancestral":
                return ancestral(step, self.passes, self.eps, self.noise)
            case "ancestral_blocks":
                return ancestral_blocks(step, self.passes, self.noise)
            case _:
                return transfer_probability(step, self.passes, self.eps)
