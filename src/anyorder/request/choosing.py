"""How the slots of a request are chosen: the policy with its numbers, and how tokens are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyorder.decoders.choose import Chooser, Sampling
from anyorder.draws import Draws
from anyorder.params import DecodeParams
from anyorder.policies.catalog import POLICIES
from anyorder.policies.published import Knobs

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel


def make_chooser(params: DecodeParams, model: LoadedModel, sample: int) -> Chooser:
    """The chooser of sample number `sample` of a request."""
    policy = POLICIES[params.policy or model.spec.policy]
    threshold = model.spec.threshold or (0.85 if policy.name == "low_confidence_dynamic" else 0.9)
    return Chooser(
        policy=policy,
        sampling=_sampling(params, model, sample),
        knobs=Knobs(
            threshold=threshold if params.threshold is None else params.threshold,
            strict=model.spec.strict_threshold,
            factor=1.0 if params.factor is None else params.factor,
            entropy_bound=0.1 if params.entropy_bound is None else params.entropy_bound,
            entropy_threshold=0.4 if params.entropy_threshold is None else params.entropy_threshold,
            position_penalty=0.02 if params.position_penalty is None else params.position_penalty,
        ),
        alg_temp=params.alg_temp,
        top=params.top_logprobs,
    )


def _sampling(params: DecodeParams, model: LoadedModel, sample: int) -> Sampling:
    stops = model.stop_ids
    late = stops if params.temperature == 0 else stops[1:]  # as published: sampling only delays the end of the turn
    return Sampling(
        mask_id=None if params.mode == "causal" else model.mask_token_id,
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=params.top_k,
        filter_order=model.spec.filter_order,
        nucleus=model.spec.nucleus,
        confidence=model.spec.confidence,
        banned_ids=banned_ids(params, model),
        logit_bias=params.logit_bias,
        late_ids=late if params.confidence_eos_eot_inf else (),
        draws=Draws(params.seed, sample),
    )


def banned_ids(params: DecodeParams, model: LoadedModel) -> tuple[int, ...]:
    """Ids that no slot may get: the caller's, and control tokens that this request has no use for."""
    control = model.edit_ids if model.edit_ids is not None and params.edit_threshold is None else ()
    return (*params.banned_ids, *(model.stop_ids[:1] if params.logits_eos_inf else ()), *control)
