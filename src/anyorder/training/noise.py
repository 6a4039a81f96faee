"""How clean tokens are made noisy: pure functions of random numbers that the caller draws.

Ratios are per *group* of tokens (a document, or a block), and `index` [B, L] says which group a token belongs to
(`Batch.document_index`, `Batch.block_index`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from anyorder.draws import Draws
from anyorder.errors import ParameterError

Purpose = Literal["order", "within", "mask", "token", "full", "condition", "offset"]
"""What a number decides: `stratified`'s two, which tokens are noisy, what replaces them, which groups are noisy
throughout, whether a pass is self-conditioned, where blocks begin."""
_PURPOSES: dict[Purpose, int] = {
    "order": 0, "within": 1, "mask": 2, "token": 3, "full": 4, "condition": 5, "offset": 6,
}  # fmt: skip


@dataclass(frozen=True)
class StepDraws:
    """The random numbers of one training step: a hash of (seed, step, purpose, index), so any step can be repeated.

    Args:
        seed: of the run, any int64.
        step: number of the optimiser step.
        device: where the numbers are wanted.
    """

    seed: int
    step: int
    device: torch.device | str = "cpu"

    def uniform(self, purpose: Purpose, *shape: int, start: int = 0) -> Tensor:
        """Numbers in [0, 1), float64 where the device has it.

        Args:
            shape: of the result.
            start: index of its first number; a process that holds rows 8 to 15 of a batch gets the same numbers as one
                that holds them all if it starts at 8 * L.
        """
        count = torch.Size(shape).numel()
        index = torch.arange(start, start + count, device=self.device)
        return Draws(self.seed, _PURPOSES[purpose]).uniform(index, self.step).view(shape)


def stratified(order: Tensor, within: Tensor) -> Tensor:
    """One number per group, each uniform in [0, 1), together one in each of n equal strata.

    t_i = (rank(order_i) + within_i) / n. Which group gets which stratum is drawn as well: BD3-LM's code deals them out
    by place, so that the first block of a batch is always the least noisy one.

    Args:
        order, within: [n] uniform in [0, 1), independent.
    Source: MDLM, arXiv:2406.07524, and BD3-LM, arXiv:2503.09573 (antithetic sampling); the ranks are ours.
    """
    return (order.argsort(stable=True).argsort() + within) / max(order.shape[0], 1)


def ratios(uniform: Tensor, low: float = 1e-3, high: float = 1.0) -> Tensor:
    """Mask ratios t ~ U(low, high) from numbers in [0, 1): [n] -> [n].

    LLaDA, SDAR and Fast-dLLM v2 train with (0.001, 1). BD3-LM clips: it searches for the interval whose loss varies
    least, which depends on the block length.

    Raises:
        ParameterError: not 0 < low <= high <= 1; at 0 nothing is masked and the weight 1/t has no limit.
    Source: LLaDA, arXiv:2502.09992, and its GUIDELINES.md; BD3-LM, arXiv:2503.09573 (clipped schedules).
    """
    if not 0 < low <= high <= 1:
        raise ParameterError(
            f"mask ratios must satisfy 0 < low <= high <= 1, got low={low} and high={high}; LLaDA trains with 0.001, 1"
        )
    return low + (high - low) * uniform


def with_full(ratio: Tensor, uniform: Tensor, share: float) -> Tensor:
    """Set a share of the groups to ratio 1, which keeps a model in practice at drafting whole blocks.

    Args:
        ratio: [n], uniform: [n] in [0, 1), share: in [0, 1].
    """
    return torch.where(uniform < share, 1.0, ratio)


def per_token(ratio: Tensor, index: Tensor) -> Tensor:
    """The ratio of each token's group.

    Args:
        ratio: [n], one per group.
        index: [B, L] int64, group of each token.
    Raises:
        ParameterError: there are not as many ratios as groups.
    """
    groups = int(index.max()) + 1
    if ratio.shape != (groups,):
        raise ParameterError(f"`ratio` needs one number for each of {groups} groups, got {tuple(ratio.shape)}")
    return ratio[index]


def noisy(ratio: Tensor, uniform: Tensor, among: Tensor) -> Tensor:
    """Which tokens become noise: each token of `among` with its ratio, independently.

    Args:
        ratio: [B, L] in [0, 1], uniform: [B, L] in [0, 1).
        among: [B, L] bool, tokens that may.
    Returns:
        [B, L] bool, a subset of `among`.
    """
    return among & (uniform < ratio)


def complement(chosen: Tensor, among: Tensor) -> Tensor:
    """The other view of a complementary pair: what may be masked and is not; [B, L] bool.

    Source: Fast-dLLM v2, arXiv:2509.26328 (m and 1 - m).
    """
    return among & ~chosen


def masked(ids: Tensor, chosen: Tensor, mask_token_id: int) -> Tensor:
    """Mask noise: `chosen` tokens become the mask token; [B, L] int64."""
    return torch.where(chosen, mask_token_id, ids)


def replaced(ids: Tensor, chosen: Tensor, uniform: Tensor, vocab_size: int) -> Tensor:
    """Uniform noise: `chosen` tokens become uniform draws from the vocabulary, which may repeat the token itself.

    Args:
        uniform: [B, L] in [0, 1), one number per token.
    Source: D3PM, arXiv:2107.03006, uniform transitions; DiffusionGemma.
    """
    return torch.where(chosen, (uniform * vocab_size).long(), ids)
