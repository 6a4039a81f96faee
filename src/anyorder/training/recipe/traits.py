"""What several objectives of a recipe have in common: noise ratios, blocks and their curriculum, the clean context."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from anyorder.training.curriculum import BlockCurriculum
from anyorder.training.data.spec import Strict

Length = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class Noisy(Strict):
    """What all objectives with a noise ratio have in common."""

    ratios: tuple[float, float] = (1e-3, 1.0)
    """Noise ratios are drawn evenly between these two."""
    stratified: bool = True
    """Spread the ratios of a batch evenly over the interval: less variance between steps."""

    @model_validator(mode="after")
    def _interval(self) -> Noisy:
        low, high = self.ratios
        if not 0 < low <= high <= 1:
            raise ValueError(f"`ratios` must satisfy 0 < low <= high <= 1, got {list(self.ratios)}")
        return self


class Masked(Noisy):
    """Noise that is a mask token."""

    full_share: Share = 0.0
    """Share of the documents (or blocks) whose ratio is 1, which trains drafting whole blocks."""


class CurriculumSpec(Strict):
    """Block lengths over the run: warm-up, stable, decay; see `curriculum.BlockCurriculum`."""

    warmup: tuple[Length, ...] = ()
    """Lengths in the beginning, each for the same number of steps."""
    warmup_share: Share = 0.0
    """Share of the steps that they get together."""
    stable: Length | None = None
    """Length in the middle; left out: `block_length`."""
    decay: tuple[Length, ...] = ()
    """Lengths in the end; the last one must be `block_length`."""
    decay_share: Share = 0.0
    """Share of the steps that they get together."""

    @model_validator(mode="after")
    def _whole(self) -> CurriculumSpec:
        for name in ("warmup", "decay"):
            if bool(getattr(self, name)) != bool(getattr(self, f"{name}_share")):
                raise ValueError(f"`{name}` and `{name}_share` belong together; give both or neither")
        if self.warmup_share + self.decay_share > 1:
            raise ValueError("`warmup_share` and `decay_share` are of the same run; they come to more than 1")
        return self


class Blocks(Strict):
    """What all objectives with blocks have in common."""

    block_length: Length
    """Tokens per block; the length that the result decodes with."""
    curriculum: CurriculumSpec = CurriculumSpec()
    """Other block lengths on the way there."""

    @model_validator(mode="after")
    def _arriving(self) -> Blocks:
        last = (*self._stable(), *self.curriculum.decay)[-1]
        if last != self.block_length:
            raise ValueError(f"`curriculum` ends with blocks of {last}, but `block_length` is {self.block_length}")
        return self

    def _stable(self) -> tuple[int]:
        return (self.curriculum.stable or self.block_length,)

    def lengths(self, steps: int) -> BlockCurriculum:
        """The block length of every step of a run."""
        curriculum = self.curriculum
        return BlockCurriculum(
            steps=steps,
            stable=self._stable()[0],
            warmup=curriculum.warmup,
            warmup_steps=_steps(curriculum.warmup, curriculum.warmup_share, steps),
            decay=curriculum.decay,
            decay_steps=_steps(curriculum.decay, curriculum.decay_share, steps),
        )


def _steps(lengths: tuple[int, ...], share: float, steps: int) -> int:
    return max(len(lengths), int(share * steps))


class Context(Strict):
    """What clean tokens see in front of a noisy block."""

    context: Literal["block", "causal", "frozen"] = "block"
    """"block": their own block too, as published; "causal": only what is left of them, as in the causal mode;
    "frozen": causal, and read with the adapter off, so that the causal mode stays as it is (fast-dllm-v2 with lora)."""
    causal_weight: float = Field(default=0.0, ge=0)
    """Weight of the next-token loss of the clean tokens, which keeps the causal mode alive; needs context "causal"."""

    @model_validator(mode="after")
    def _readable(self) -> Context:
        if self.causal_weight and self.context != "causal":
            raise ValueError(
                f'`causal_weight` needs context = "causal", got "{self.context}": with "block" a clean row sees the '
                'token that it would be asked for, with "frozen" clean rows are not trained'
            )
        return self

    @property
    def regime(self) -> Literal["block", "causal"]:
        """What clean tokens see."""
        return "block" if self.context == "block" else "causal"


def refuse_frozen(spec: Context) -> None:
    if spec.context == "frozen":
        raise ValueError('`context` must be "block" or "causal" for this kind, got "frozen"; fast-dllm-v2 takes it')
