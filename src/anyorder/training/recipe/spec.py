"""What a recipe may say: one model per section, checked by pydantic; `read.py` turns its complaints into ours."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from anyorder.training.data.packing import Packing
from anyorder.training.data.spec import Data, Strict, TasksData
from anyorder.training.recipe.objectives import ObjectiveSpec, decoded_block, masks, reads_frozen, self_conditioning
from anyorder.training.schedules import ScheduleName

MaskToken = Annotated[int, Field(ge=0)] | Annotated[str, Field(min_length=1)]
OWN, NEW = "own", "new"


class ModelSpec(Strict):
    """What is trained."""

    source: str = Field(default="smollm2", min_length=1)
    """A folder with config.json and safetensors, a GGUF file, a hub id owner/name, or "smollm2" or "tasks"."""
    weights: Literal["trained", "random"] = "trained"
    """"random": the source gives its config.json and its tokenizer only, and its weights are drawn by `seed`; see
    `models.load.drawn`."""
    revision: str | None = None
    """Branch, tag or commit of a hub id."""
    mask_token: MaskToken = OWN
    """"own": the model's (an autoregressive one has a rarely used token stand in); "new": appended to the vocabulary;
    an id, or the string of a token in the vocabulary, such as a reserved one."""


class Full(Strict):
    """Every parameter is trained."""

    kind: Literal["full"]


class Lora(Strict):
    """Low-rank changes of every layer, and the mask token's embedding; the rest is frozen.

    If the objective reads clean text with the adapter off, an adapter is published, else the merged model.
    """

    kind: Literal["lora"]
    rank: int = Field(default=32, ge=1)
    """Rows of the small matrices."""
    alpha: float = Field(default=64.0, gt=0)
    """Changes are scaled by alpha / rank."""


class PackingSpec(Strict):
    """How documents come into rows."""

    length: int = Field(ge=2)
    """Tokens of a row; no document is read further than that at a time."""
    order: Packing = "best-fit"
    """"best-fit": whole documents where they fit; "in-order": cut where a row ends, so that rows are full."""


class OptimisationSpec(Strict):
    """How long, how fast."""

    steps: int | None = Field(default=None, ge=1)
    """Optimiser steps; give this or `epochs`."""
    epochs: float | None = Field(default=None, gt=0)
    """Times through the data; give this or `steps`."""
    batch_rows: int = Field(ge=1)
    """Rows of a step."""
    micro_rows: int | None = Field(default=None, ge=1)
    """Rows of one forward and backward, for less memory; the result is the same. Left out: all of the batch."""
    lr: float = Field(gt=0)
    """Peak of the learning rate."""
    schedule: ScheduleName = "cosine"
    """"cosine", "wsd" (warm-up, stable, decay) or "constant"."""
    warmup: float = Field(default=0.02, ge=0, lt=1)
    """Share of the steps in which the learning rate rises."""
    decay: float | None = Field(default=None, gt=0, lt=1)
    """Share of the steps in which it falls; schedule "wsd" only, and needed there."""
    floor: float = Field(default=0.1, ge=0, le=1)
    """Share of the peak at the end."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    """Decay of AdamW's averages of the gradient and of its square."""
    eps: float = Field(default=1e-8, gt=0)
    """Added to the root of the second."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Of matrices; norms, biases and a mask embedding are not decayed."""
    clip: float = Field(default=1.0, ge=0)
    """Largest norm of the gradient; 0: not clipped."""
    ema: float = Field(default=0.0, ge=0, lt=1)
    """Decay of an average of the weights, which is published instead of the last ones; 0: there is none."""

    @model_validator(mode="after")
    def _fitting(self) -> OptimisationSpec:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either `steps` or `epochs`")
        if (self.decay is None) == (self.schedule == "wsd"):
            raise ValueError('`decay` belongs to schedule = "wsd", which needs it')
        if self.warmup + (self.decay or 0) > 1:
            raise ValueError("`warmup` and `decay` are shares of the same run; they come to more than 1")
        return self


class PrecisionSpec(Strict):
    """Number formats, and memory bought with time."""

    weights: Literal["float32", "bfloat16"] = "float32"
    """Of what is not trained; trained numbers are always float32, as small steps are lost in bfloat16."""
    compute: Literal["float32", "bfloat16"] = "float32"
    """Of the matrix products; "bfloat16" where the machine is faster with it."""
    publish: Literal["float32", "bfloat16"] = "bfloat16"
    """Of the result's weights."""
    recompute: bool = False
    """Keep only the input of every layer and compute the rest again in the backward pass: a third more time for a
    fraction of the memory."""


class RunningSpec(Strict):
    """How the run is run; nothing of this changes what is learned."""

    log_every: int = Field(default=10, ge=1)
    """Steps from one line of the log to the next."""
    save_steps: int = Field(default=500, ge=1)
    """Steps from one checkpoint to the next."""
    save_s: float = Field(default=600.0, gt=0)
    """Seconds after which one is written anyhow."""
    keep: int = Field(default=3, ge=1)
    """Checkpoints that stay."""
    models: bool = False
    """Write the model into every checkpoint as well, for others to load."""


class Recipe(Strict):
    """A whole recipe."""

    about: str = ""
    """One line for people."""
    seed: int = Field(default=0, ge=0)
    """Of the order of the rows, the noise, and the beginning of an adapter or of random weights."""
    model: ModelSpec = ModelSpec()
    method: Annotated[Full | Lora, Field(discriminator="kind")]
    objective: ObjectiveSpec
    data: tuple[Data, ...] = Field(min_length=1)
    packing: PackingSpec
    optimisation: OptimisationSpec
    precision: PrecisionSpec = PrecisionSpec()
    running: RunningSpec = RunningSpec()

    @property
    def publishes_adapter(self) -> bool:
        """What is learned is kept apart from the base, whose causal mode stays as it is."""
        return reads_frozen(self.objective)

    @property
    def block_length(self) -> int | None:
        """That the result decodes with; None: no blocks."""
        return decoded_block(self.objective)

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        if faults := [*self._method_faults(), *self._data_faults()]:
            raise ValueError("; ".join(faults))
        return self

    def _method_faults(self) -> list[str]:
        faults: list[str] = []
        lora = isinstance(self.method, Lora)
        if self.publishes_adapter and not lora:
            faults.append(
                'this objective reads clean text with an adapter off: it needs method.kind = "lora", or another '
                "`objective.context`"
            )
        if self.publishes_adapter and self.model.mask_token == NEW:
            faults.append(
                '`model.mask_token` "new" adds a row to the base, which an adapter leaves as it is; use "own" or an id'
            )
        if not masks(self.objective) and self.model.mask_token != OWN:
            faults.append("`model.mask_token` has no meaning for an objective without masks; leave it out")
        if self_conditioning(self.objective) and lora:
            faults.append(
                "`objective.self_conditioning` trains a module of its own, which an adapter has no place for; "
                'set it to 0, or method.kind = "full"'
            )
        if lora and self.model.weights == "random":
            faults.append('an adapter cannot help `model.weights` "random"; set method.kind = "full"')
        if not lora and self.precision.weights != "float32":
            faults.append('`precision.weights` must be "float32" with method.kind = "full": all weights are trained')
        block = self.block_length
        if block is not None and block > self.packing.length:
            faults.append(f"`packing.length` is {self.packing.length}, shorter than a block of {block}")
        return faults

    def _data_faults(self) -> list[str]:
        faults: list[str] = []
        for source in self.data:
            if not source.endless:
                continue
            made = isinstance(source, TasksData)
            name, order = ('data of kind "tasks"', "best-fit") if made else ("a stream without `limit`", "in-order")
            if self.optimisation.steps is None:
                faults.append(f"{name} has no end: give `optimisation.steps` instead of `epochs`")
            if self.packing.order != order:
                faults.append(f'{name} needs packing.order = "{order}"')
            if len(self.data) > 1:
                faults.append(f"{name} must be the only data")
        return faults
