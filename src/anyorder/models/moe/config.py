"""Sizes and routing rule of a mixture of experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anyorder.errors import ModelError


@dataclass(frozen=True, kw_only=True)
class MoeConfig:
    """Everything that `SparseMLP` needs to know; hashable."""

    num_experts: int
    top_k: int
    """Experts that a token goes to."""
    expert_size: int
    """Inner width of one expert."""
    layers: tuple[bool, ...]
    """Which layers have experts; the others keep a dense MLP."""
    score: Literal["softmax", "sigmoid"]
    """Of a router logit: over all experts together, or each by itself."""
    normalise: bool
    """The weights of the chosen experts sum to `scaling`; otherwise they are their scores times `scaling`."""
    scaling: float = 1.0
    bias: bool = False
    """A learned number per expert is added to the scores that choose."""
    biased_weights: bool = False
    """The bias also enters the weights (LLaDA-MoE)."""
    num_groups: int = 1
    """Experts are chosen among the best `top_groups` of so many groups of neighbours."""
    top_groups: int = 1
    block_experts: int | None = None
    """Experts that the tokens of one block share: each goes to its best among those that are best for any token of the
    block (LLaDA2.2); None: every token chooses by itself."""
    block_length: int = 1
    """Tokens of such a block."""
    shared_size: int = 0
    """Inner width of the experts that every token goes to, all together; 0: none."""

    def __post_init__(self) -> None:
        faults: list[str] = []
        if not 1 <= self.top_k <= self.num_experts:
            faults.append(f"experts per token must be from 1 to {self.num_experts}, got {self.top_k}")
        if self.expert_size < 1:
            faults.append(f"the inner width of an expert must be positive, got {self.expert_size}")
        faults += [] if faults else self._group_faults()
        if self.block_experts is not None and not self.top_k <= self.block_experts <= self.num_experts:
            span = f"from {self.top_k} to {self.num_experts}"
            faults.append(f"experts per block must be {span}, got {self.block_experts}")
        if self.block_length < 1:
            faults.append(f"a block of tokens that share experts must have a length, got {self.block_length}")
        if faults:
            raise ModelError(f"config.json asks for what is not possible: {'; '.join(faults)}")

    def _group_faults(self) -> list[str]:
        groups, experts = self.num_groups, self.num_experts
        if groups < 1 or experts % groups:
            return [f"{experts} experts cannot be cut into {groups} equal groups"]
        if not 1 <= self.top_groups <= groups:
            return [f"groups per token must be from 1 to {groups}, got {self.top_groups}"]
        if groups > 1 and experts // groups < 2:
            return [f"{groups} groups of one expert each: groups are ranked by the two best in them"]
        if self.top_k > self.top_groups * (experts // groups):
            return [f"{self.top_k} experts per token do not fit into {self.top_groups} groups of {experts // groups}"]
        return []
