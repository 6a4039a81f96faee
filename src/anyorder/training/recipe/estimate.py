"""About how much memory a run needs, from its shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from anyorder.models.config import ModelConfig
from anyorder.training.passes import LOGIT_ROWS
from anyorder.training.recipe.objectives import Autoregressive, FastDllmV2, Llada, Mixture, ObjectiveSpec, reads_frozen
from anyorder.training.recipe.plan import Plan
from anyorder.training.recipe.spec import Lora


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes."""

    weights: int
    optimiser: int
    """Gradients, AdamW's two moments, and the average if there is one."""
    activations: int
    """What the backward pass of one micro-batch needs, its logits included."""

    @property
    def total(self) -> int:
        return self.weights + self.optimiser + self.activations


def memory(plan: Plan) -> Memory:
    """Of one process alone; rough, since what PyTorch keeps and frees is its own affair."""
    recipe, trained = plan.recipe, plan.num_trained
    bf16 = recipe.precision.compute == "bfloat16"
    frozen = plan.num_parameters if isinstance(recipe.method, Lora) else 0
    held = 2 if bf16 or recipe.precision.weights == "bfloat16" else 4
    moments = 12 + (4 if recipe.optimisation.ema else 0)
    return Memory(
        weights=frozen * held + trained * (4 + (2 if bf16 else 0)),
        optimiser=trained * moments,
        activations=_activations(plan, 2 if held == 2 else 4),
    )


def _activations(plan: Plan, size: int) -> int:
    """Of one forward that is to be differentiated; `size`: bytes of a number."""
    recipe, config = plan.recipe, plan.found.config
    rows = min(recipe.optimisation.micro_rows or recipe.optimisation.batch_rows, recipe.optimisation.batch_rows)
    streams, kept = _streams(recipe.objective)
    per_row = rows * recipe.packing.length
    layer = _per_token(config)
    layers = config.num_layers * (config.hidden_size if recipe.precision.recompute else layer)
    if recipe.precision.recompute:
        layers += layer  # the one that is being computed again
    keys = (streams - kept) * 2 * config.num_layers * config.kv_size  # of a context that is only read
    logits = 3 * 4 * min(LOGIT_ROWS, streams * per_row) * config.vocab_size
    return per_row * (kept * layers + keys) * size + logits


def _per_token(config: ModelConfig) -> int:
    """Numbers that a layer keeps of a token for its backward pass: the inputs of its products, norms and attention."""
    attention, moe = 3 * config.query_size + 3 * config.kv_size, config.moe
    kept = 6 * config.hidden_size + 2 * attention
    if moe is None:
        return kept + 4 * config.intermediate_size
    copies = 3 * config.hidden_size  # of a token for each of its experts: what goes in, what comes out, put in order
    return kept + moe.top_k * (copies + 4 * moe.expert_size) + 4 * moe.shared_size


def _streams(spec: ObjectiveSpec) -> tuple[int, int]:
    """Copies of a row that are fed, and those of them that a gradient goes through; of a mixture the largest."""
    if isinstance(spec, Mixture):
        return max(_streams(part) for part in spec.parts)
    fed = 1 if isinstance(spec, Llada | Autoregressive) else 3 if isinstance(spec, FastDllmV2) else 2
    return fed, fed - 1 if reads_frozen(spec) else fed
