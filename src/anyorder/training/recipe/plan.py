"""Everything that is known about a run before its weights are read: the model, the rows, the steps, the memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from anyorder.errors import ModelError, ParameterError
from anyorder.models.adapter import product_sizes
from anyorder.models.facts import num_parameters
from anyorder.models.load.survey import Survey, survey
from anyorder.training.data.encode import Vocabulary
from anyorder.training.data.prepare import Prepared, prepare
from anyorder.training.data.report import Watch
from anyorder.training.data.rows import PackedRows
from anyorder.training.optimisation import Optimisation
from anyorder.training.recipe.mask import MaskToken, resolve
from anyorder.training.recipe.objectives import masks
from anyorder.training.recipe.spec import Lora, Recipe


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A checked run."""

    recipe: Recipe
    found: Survey
    mask: MaskToken | None
    """None: the objective has no masks."""
    data: Prepared

    @cached_property
    def optimisation(self) -> Optimisation:
        """The numbers of the run, its shares turned into steps."""
        asked, steps = self.recipe.optimisation, self.steps
        decay = 0 if asked.decay is None else max(1, math.floor(asked.decay * steps))
        return Optimisation(
            steps=steps,
            batch_rows=asked.batch_rows,
            micro_rows=asked.micro_rows,
            lr=asked.lr,
            schedule=asked.schedule,
            warmup=min(math.ceil(asked.warmup * steps), steps - decay),
            decay=decay,
            floor=asked.floor,
            betas=asked.betas,
            eps=asked.eps,
            weight_decay=asked.weight_decay,
            clip=asked.clip or None,
            seed=self.recipe.seed,
            ema=asked.ema or None,
            precision="bfloat16" if self.recipe.precision.compute == "bfloat16" else "network",
        )

    @property
    def steps(self) -> int:
        """Optimiser steps of the whole run."""
        asked = self.recipe.optimisation
        if asked.steps is not None:
            return asked.steps
        assert asked.epochs is not None
        assert isinstance(self.data.rows, PackedRows)  # a stream has no epochs
        return max(1, math.ceil(asked.epochs * len(self.data.rows) / asked.batch_rows))

    @property
    def epochs(self) -> float | None:
        """Times through the data; None for a stream."""
        rows = self.data.rows
        if not isinstance(rows, PackedRows):
            return None
        return self.steps * self.recipe.optimisation.batch_rows / len(rows)

    @property
    def vocab_size(self) -> int:
        """Tokens that mean something; the table may have more rows."""
        size, tokenizer = self.found.config.vocab_size, self.found.tokenizer
        return size if tokenizer is None else min(size, len(tokenizer))

    @property
    def num_parameters(self) -> int:
        """Of the base."""
        return num_parameters(self.found.config, self.found.spec)

    @property
    def num_trained(self) -> int:
        """Numbers that change."""
        method, config = self.recipe.method, self.found.config
        if isinstance(method, Lora):
            per_layer = sum(method.rank * (a + b) for a, b in product_sizes(config).values())
            return config.num_layers * per_layer + (config.hidden_size if self.mask else 0)
        tables = 1 if config.tie_word_embeddings else 2
        new_rows = self.mask.vocab_size - config.vocab_size if self.mask else 0
        return self.num_parameters + tables * new_rows * config.hidden_size


def look(recipe: Recipe, *, offline: bool = False) -> Survey:
    """The recipe's model, without its weights.

    Args:
        offline: never ask the hub.
    Raises:
        ModelError: it cannot be used, or not with this objective.
        ParameterError: the recipe does not fit it.
    """
    model = recipe.model
    drawn = recipe.seed if model.weights == "random" else None
    found = survey(model.source, revision=model.revision, adapter=False, offline=offline, drawn=drawn)
    _check(recipe, found)
    return found


def plan(recipe: Recipe, found: Survey, *, watch: Watch | None = None) -> Plan:
    """Read and pack the data.

    Args:
        found: from `look`.
        watch: called after every document.
    Raises:
        ModelError: the model has no tokenizer or template, and the data needs it.
        ParameterError: the model has no such mask token.
        DataError: the data is damaged.
    """
    mask = resolve(recipe.model.mask_token, found) if masks(recipe.objective) else None
    vocabulary = Vocabulary(found.tokenizer, found.config.vocab_size, next(iter(found.stop_ids), None))
    data = prepare(
        recipe.data,
        vocabulary,
        length=recipe.packing.length,
        packing=recipe.packing.order,
        seed=recipe.seed,
        watch=watch,
    )
    return Plan(recipe=recipe, found=found, mask=mask, data=data)


def _check(recipe: Recipe, found: Survey) -> None:
    if recipe.packing.length > found.config.max_context:
        raise ParameterError(
            f"`packing.length` must be at most {found.config.max_context}, the context of {found.source}, "
            f"got {recipe.packing.length}"
        )
    if recipe.publishes_adapter and not (found.spec.attention == "causal" and found.spec.shift):
        raise ModelError(
            f"{found.source} ({found.spec.title}) is no autoregressive model, which this objective leaves as it is; "
            "take another objective"
        )
