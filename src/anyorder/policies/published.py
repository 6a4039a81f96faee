"""The published commit policies, each a pure function of scores and knobs; `policies.catalog` has their facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from anyorder.policies import select


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What a policy may read besides the scores of this pass."""

    quota: int = 1  # slots the schedule gives this pass
    probability: float = 1.0  # chance per slot that the schedule gives this pass
    threshold: float = 0.9
    strict: bool = False  # compare with > instead of >=
    factor: float = 1.0
    entropy_bound: float = 0.1  # nats
    entropy_threshold: float = 0.4  # nats
    position_penalty: float = 0.02  # nats per slot, read by the score


PolicyFunction = Callable[[Tensor, Tensor, Knobs], Tensor]


def threshold(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """All slots at least `threshold` sure, and the surest. Source: Fast-dLLM, arXiv:2505.22618, `threshold`."""
    return select.threshold(score, open, knobs.threshold, strict=knobs.strict)


def factor(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """The r surest while the r-th is 1 - factor / (r + 1) sure. Source: Fast-dLLM, arXiv:2505.22618, `factor`."""
    return select.factor(score, open, knobs.factor)


def entropy_bound(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """Slots within `entropy_bound` nats of joint error; score is minus the entropy. Source: arXiv:2505.24857."""
    return select.entropy_bound(-score, open, knobs.entropy_bound)


def low_confidence(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """The surest `quota` slots (the unsure ones are "remasked"). Source: LLaDA, `remasking="low_confidence"`."""
    return select.quota(score, open, knobs.quota)


def random(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """`quota` slots at random; score is a uniform draw. Source: LLaDA, `remasking="random"`."""
    return select.quota(score, open, knobs.quota)


def origin(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """Every slot by itself; score is a uniform draw. May commit none. Source: Dream, `alg="origin"`."""
    return select.bernoulli(score, open, knobs.probability)


def maskgit_plus(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """The `quota` most probable proposals. Source: Dream, `alg="maskgit_plus"` (after MaskGIT, arXiv:2202.04200)."""
    return select.quota(score, open, knobs.quota)


def topk_margin(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """The `quota` slots with the widest margin p1 - p2. Source: Dream, `alg="topk_margin"` (arXiv:2502.06768)."""
    return select.quota(score, open, knobs.quota)


def entropy(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """The `quota` slots of least entropy; score is minus the entropy. Source: Dream, `alg="entropy"`."""
    return select.quota(score, open, knobs.quota)


def confidence_threshold(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """`threshold` within a budget of `quota` slots. Source: Fast-dLLM for Dream, `alg="confidence_threshold"`."""
    return select.threshold_within(score, open, knobs.threshold, knobs.quota)


def sequential(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """The leftmost `quota` slots. Source: SDAR, `remasking_strategy="sequential"`."""
    return select.leftmost(open, knobs.quota)


def low_confidence_static(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """The surest `quota` slots. Source: SDAR, `remasking_strategy="low_confidence_static"`."""
    return select.quota(score, open, knobs.quota)


def low_confidence_dynamic(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """All above `threshold` if they reach `quota`, else the surest. Source: SDAR, `low_confidence_dynamic`."""
    return select.dynamic(score, open, knobs.threshold, knobs.quota)


def entropy_bounded(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """Slots whose entropies sum below `entropy_bound`; score is minus the entropy. Source: JetEngine for SDAR."""
    return select.entropy_bounded(-score, open, knobs.entropy_bound)


def entropy_threshold(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """All slots below `entropy_threshold`, and the lowest; score is minus `score.distant_entropy`. Source: WeDLM."""
    return select.threshold(score, open, -knobs.entropy_threshold, strict=True)


def first_hitting(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """One slot; score is a uniform draw. Source: BD3-LM, `sampling.first_hitting`.

    The published sampler also draws the time at which this happens; these networks are not told it.
    """
    return select.quota(score, open, 1)


def ddpm_cache(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """Every slot by itself; score is a uniform draw. Source: MDLM, `sampling.predictor=ddpm_cache`."""
    return select.bernoulli(score, open, knobs.probability)


def ddpm(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """Every slot by itself; score is a uniform draw. Source: BD3-LM, `sampling.first_hitting=false`."""
    return select.bernoulli(score, open, knobs.probability)


def renoise(score: Tensor, open: Tensor, knobs: Knobs) -> Tensor:
    """`entropy_bound` over all slots of a canvas of noise. Source: transformers' `EntropyBoundSampler`."""
    return select.entropy_bound(-score, open, knobs.entropy_bound)


FUNCTIONS: dict[str, PolicyFunction] = {
    function.__name__: function
    for function in (
        threshold, factor, entropy_bound, low_confidence, random, origin, maskgit_plus, topk_margin, entropy,
        confidence_threshold, sequential, low_confidence_static, low_confidence_dynamic, entropy_bounded,
        entropy_threshold, first_hitting, ddpm_cache, ddpm, renoise,
    )
}  # fmt: skip
