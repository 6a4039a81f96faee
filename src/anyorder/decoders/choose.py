"""From the rows of one pass to its decision: proposed ids, how sure they are, which of them are committed.

Runs on the device of the logits and reads nothing back: the engine moves the decisions of a whole batch at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from anyorder.draws import Draws, wide_dtype
from anyorder.policies import score
from anyorder.policies.catalog import PolicyInfo
from anyorder.policies.published import FUNCTIONS, Knobs
from anyorder.policies.sample import FilterOrder, Nucleus, best, filter_logits
from anyorder.policies.schedule import PassSchedule

Confidence = Literal["raw", "filtered"]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a row of logits becomes a proposed token and its confidence."""

    mask_id: int | None  # never produced; None where the model has no mask token
    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    filter_order: FilterOrder = "top_p_first"
    nucleus: Nucleus = "through"
    confidence: Confidence = "raw"  # softmax of the logits as they came, or of the filtered and scaled ones
    banned_ids: tuple[int, ...] = ()
    logit_bias: Mapping[int, float] = field(default_factory=dict[int, float])
    late_ids: tuple[int, ...] = ()  # committed last: their confidence counts as 0 (`confidence_eos_eot_inf`)
    draws: Draws = field(default_factory=Draws)

    def adjust(self, logits: Tensor) -> Tensor:
        """Apply biases and bans in place; the mask token is always banned (before any softmax)."""
        if self.logit_bias:
            ids = torch.tensor(list(self.logit_bias), device=logits.device)
            logits[:, ids] += torch.tensor(list(self.logit_bias.values()), device=logits.device, dtype=logits.dtype)
        banned = self.banned_ids if self.mask_id is None else (self.mask_id, *self.banned_ids)
        for token in banned:
            logits[:, token] = -torch.inf
        return logits

    def filtered(self, logits: Tensor, temperature: float = 0) -> Tensor:
        """[n, V] adjusted logits, scaled and filtered; 0 leaves the scale. The argument itself if nothing is done."""
        return filter_logits(
            logits,
            temperature=temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            order=self.filter_order,
            nucleus=self.nucleus,
        )

    def propose(self, logits: Tensor, slots: Tensor, pass_index: int) -> tuple[Tensor, Tensor, Tensor]:
        """Propose one token per row.

        Args:
            logits: [n, V], adjusted.
            slots: [n] int64, the canvas slot of every row, on the device of the logits.
        Returns:
            ids [n] int64, confidence [n] float in [0, 1], and the logits [n, V] that the ids are drawn from.
        """
        filtered = self.filtered(logits, self.temperature)
        ids = best(filtered) if self.temperature == 0 else self.draws.tokens(filtered, slots, pass_index)
        confidence = score.probability(self.measured(logits, filtered), ids)
        if self.late_ids:  # the filters may have left nothing else
            confidence = confidence.masked_fill(torch.isin(ids, torch.tensor(self.late_ids, device=ids.device)), 0)
        return ids, confidence, filtered

    def measured(self, logits: Tensor, filtered: Tensor) -> Tensor:
        """[n, V]: the logits under whose softmax the confidence is a probability; late ids have none."""
        measured = logits if self.confidence == "raw" else filtered
        if not self.late_ids:
            return measured
        return measured.index_fill(-1, torch.tensor(self.late_ids, device=logits.device), -torch.inf)


@dataclass(frozen=True, kw_only=True)
class Chooser:
    """A commit policy with its knobs and the sampling it ranks.

    Attributes:
        top: likeliest tokens to report beside every proposal.
    """

    policy: PolicyInfo
    sampling: Sampling
    knobs: Knobs = field(default_factory=Knobs)
    alg_temp: float | None = None
    top: int = 0

    def choose(
        self,
        logits: Tensor,
        slots: Tensor,
        *,
        pass_index: int,
        quota: int = 1,
        probability: float = 1.0,
        all: bool = False,
        greedy: bool = False,
    ) -> Tensor:
        """Decide one pass.

        Args:
            logits: [n, V] of the candidate slots; changed in place.
            slots: [n] int64 on the CPU.
            quota: slots that the schedule gives this pass.
            probability: chance per slot that the schedule gives this pass.
            all: commit every candidate, whatever the policy.
            greedy: propose the best tokens, whatever the temperature.
        Returns:
            [3 + 2 K, n] float: ids, confidence, 1 where committed; K = min(top, V) likeliest ids, best first, and
            their probabilities, measured as the confidence is.
        """
        if slots.shape[0] == 0:
            rows = 3 + 2 * min(self.top, logits.shape[-1])
            return logits.new_empty((rows, 0), dtype=wide_dtype(logits.device))
        slots = slots.to(logits.device, non_blocking=True)
        sampling = replace(self.sampling, temperature=0.0) if greedy else self.sampling
        ids, confidence, filtered = sampling.propose(sampling.adjust(logits), slots, pass_index)
        if all:
            commit = torch.ones_like(ids, dtype=torch.bool)
        else:
            ranked = self._score(logits, filtered, confidence, slots, pass_index)
            if self.alg_temp:
                commit = self.sampling.draws.subset(ranked / self.alg_temp, slots, pass_index, quota)
            else:
                knobs = replace(self.knobs, quota=quota, probability=probability)
                commit = FUNCTIONS[self.policy.name](ranked, torch.ones_like(ids, dtype=torch.bool), knobs)
        wide = wide_dtype(logits.device)
        decision = torch.stack([ids.to(wide), confidence.to(wide), commit.to(wide)])
        if not self.top:
            return decision
        best, chances = score.likeliest(self.sampling.measured(logits, filtered), self.top)
        return torch.cat([decision, best.T.to(wide), chances.T.to(wide)])

    def next_step(self, schedule: PassSchedule, slots: Tensor, step: int) -> int:
        """The scheduled pass to run next: `step`, or the first one behind it that reveals any of `slots`.

        Where random numbers alone say which slots a pass reveals, those that reveal none need no forward.
        """
        if not schedule.ancestral:
            return step
        while step < schedule.passes and not bool(self._reveals(schedule, slots, step).any()):
            step += 1
        return step

    def _reveals(self, schedule: PassSchedule, slots: Tensor, step: int) -> Tensor:
        return self.sampling.draws.uniform(slots, step, "slot") < schedule.probability(step)

    def _score(self, logits: Tensor, filtered: Tensor, confidence: Tensor, slots: Tensor, pass_index: int) -> Tensor:
        match self.policy.score:
            case "probability":
                return confidence
            case "margin":
                return score.margin(filtered)
            case "entropy":
                return -score.entropy(filtered)
            case "distant_entropy":
                return -score.distant_entropy(logits, slots, self.knobs.position_penalty)
            case "random":
                return self.sampling.draws.uniform(slots, pass_index, "slot")
