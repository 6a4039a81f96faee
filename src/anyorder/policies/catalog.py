"""The commit policies by their published names: what they rank by, which parameters they read, where they come from.

Free of torch, so that the command line can list and check policies at once; `policies.published` holds the functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Score = Literal["probability", "margin", "entropy", "distant_entropy", "random"]
Schedule = Literal["none", "even", "timesteps", "budget", "ancestral", "ancestral_blocks"]


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """Facts about one policy."""

    name: str
    summary: str
    score: Score  # what the slots are ranked by
    schedule: Schedule  # how `steps` becomes a number of slots per pass; "none": `steps` is not read
    reads: tuple[str, ...]  # the DecodeParams fields it reads besides sampling
    source: str


_ALL = (
    PolicyInfo("threshold", "all slots at least `threshold` sure, and the surest", "probability", "none",
               ("threshold",), "Fast-dLLM, arXiv:2505.22618; Fast-dLLM v2, arXiv:2509.26328"),
    PolicyInfo("factor", "the r surest while the r-th is 1 - factor / (r + 1) sure", "probability", "none",
               ("factor",), "Fast-dLLM, arXiv:2505.22618"),
    PolicyInfo("entropy_bound", "the most certain slots within `entropy_bound` nats of joint error", "entropy", "none",
               ("entropy_bound",), "EB-sampler, arXiv:2505.24857"),
    PolicyInfo("low_confidence", "the surest slots, an even number per pass", "probability", "even",
               ("steps",), "LLaDA, arXiv:2502.09992"),
    PolicyInfo("random", "random slots, an even number per pass", "random", "even",
               ("steps",), "LLaDA, arXiv:2502.09992"),
    PolicyInfo("origin", "every slot by itself with the schedule's probability", "random", "timesteps",
               ("steps", "eps"), "Dream, arXiv:2508.15487"),
    PolicyInfo("maskgit_plus", "the surest slots on the time grid", "probability", "timesteps",
               ("steps", "eps", "alg_temp"), "Dream, arXiv:2508.15487"),
    PolicyInfo("topk_margin", "the slots with the widest lead over the second token", "margin", "timesteps",
               ("steps", "eps", "alg_temp"), "Dream, arXiv:2508.15487"),
    PolicyInfo("entropy", "the slots with the least entropy on the time grid", "entropy", "timesteps",
               ("steps", "eps", "alg_temp"), "Dream, arXiv:2508.15487"),
    PolicyInfo("confidence_threshold", "`threshold` within an even budget per pass", "probability", "budget",
               ("threshold", "steps"), "Fast-dLLM for Dream, arXiv:2505.22618"),
    PolicyInfo("sequential", "the leftmost slots, an even number per pass", "probability", "even",
               ("steps",), "SDAR, arXiv:2510.06303"),
    PolicyInfo("low_confidence_static", "the surest slots, an even number per pass", "probability", "even",
               ("steps",), "SDAR, arXiv:2510.06303"),
    PolicyInfo("low_confidence_dynamic", "all above `threshold` if they reach the pass's share, else the surest",
               "probability", "even", ("threshold", "steps"), "SDAR, arXiv:2510.06303"),
    PolicyInfo("entropy_bounded", "the most certain slots whose entropies sum below `entropy_bound`", "entropy", "none",
               ("entropy_bound",), "JetEngine for SDAR"),
    PolicyInfo("entropy_threshold", "all slots of less entropy than `entropy_threshold`, a slot further right of less, "
               "and the most certain", "distant_entropy", "none", ("entropy_threshold", "position_penalty"),
               "WeDLM, its engine's sampler"),
    PolicyInfo("first_hitting", "one slot at random: the next one that the reverse process would reveal", "random",
               "none", (), "BD3-LM, arXiv:2503.09573; arXiv:2409.02908"),
    PolicyInfo("ddpm_cache", "every slot by itself as time runs from 1 to `eps`, then the best token of what is left",
               "random", "ancestral", ("steps", "eps", "noise"), "MDLM, arXiv:2406.07524"),
    PolicyInfo("ddpm", "every slot of the block by itself as time runs from 1 to 0", "random", "ancestral_blocks",
               ("steps", "noise"), "BD3-LM, arXiv:2503.09573"),
    PolicyInfo("renoise", "the most certain slots within `entropy_bound`; the others become new noise", "entropy",
               "none", ("entropy_bound", "steps"), "DiffusionGemma, arXiv:2608.00146"),
)  # fmt: skip

POLICIES: dict[str, PolicyInfo] = {info.name: info for info in _ALL}
