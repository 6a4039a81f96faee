"""How many slots a pass should commit when `steps` is given, exactly as each family defines it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyorder.policies.catalog import Schedule


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


@dataclass(frozen=True, kw_only=True)
class PassSchedule:
    """The shares of the passes over one block (or one canvas).

    Args:
        kind: of the policy.
        total: slots that the schedule divides.
        steps: passes; None gives every pass one slot.
        eps: end of the time grid.
    """

    kind: Schedule
    total: int
    steps: int | None = None
    eps: float = 1e-3

    @property
    def passes(self) -> int:
        """Scheduled passes, at least one."""
        return self.steps or max(self.total, 1)

    def quota(self, step: int, open_count: int) -> int:
        """Slots that pass `step` commits while `open_count` are open; further passes go on with the last share."""
        match self.kind:
            case "none":
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
        return transfer_probability(step, self.passes, self.eps)
