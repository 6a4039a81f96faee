"""What a recipe may say about the objective: one model per kind, each with only the fields that it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from anyorder.models.families.converted import Denoising
from anyorder.training.data.spec import Strict
from anyorder.training.recipe.traits import Blocks, Context, Masked, Noisy, Share, refuse_frozen


class Llada(Masked):
    """Masked diffusion over whole documents: `objectives.masked_diffusion`."""

    kind: Literal["llada"]

    def denoising(self) -> Denoising:
        """How the result is decoded."""
        return Denoising(attention="bidirectional", shift=False)


class Bd3lm(Masked, Blocks, Context):
    """Block diffusion: `objectives.block_diffusion`."""

    kind: Literal["bd3lm"]

    @model_validator(mode="after")
    def _trained(self) -> Bd3lm:
        refuse_frozen(self)
        return self

    def denoising(self) -> Denoising:
        """How the result is decoded."""
        return Denoising(attention="block", shift=False, context=self.regime, causal=self.causal_weight > 0)


class Sdar(Masked, Blocks):
    """SDAR's block diffusion, one ratio per document: `objectives.sdar`."""

    kind: Literal["sdar"]

    def denoising(self) -> Denoising:
        """How the result is decoded."""
        return Denoising(attention="block", shift=False)


class FastDllmV2(Masked, Blocks, Context):
    """Two complementary views of every block: `objectives.complementary`."""

    kind: Literal["fast-dllm-v2"]
    shift: bool = True
    """Rows predict the next token, as the autoregressive base did."""

    @model_validator(mode="after")
    def _shifted(self) -> FastDllmV2:
        if self.context == "frozen" and not self.shift:
            raise ValueError('`context` "frozen" needs shift = true: the base predicts the first token of a block')
        return self

    def denoising(self) -> Denoising:
        """How the result is decoded."""
        causal = self.causal_weight > 0 or self.context == "frozen"
        return Denoising(attention="block", shift=self.shift, context=self.regime, causal=causal)


class DiffusionGemma(Noisy, Blocks, Context):
    """Uniform noise: `objectives.uniform_noise`."""

    kind: Literal["diffusiongemma"]
    self_conditioning: Share = 0.5
    """Share of the steps in which the network is told what it predicted of the same noisy tokens in a pass before; 0:
    it gets no module for that."""

    @model_validator(mode="after")
    def _trained(self) -> DiffusionGemma:
        refuse_frozen(self)
        return self

    def denoising(self) -> Denoising:
        """No decoder of this package begins with random tokens yet: the result decodes in its causal mode."""
        return Denoising(attention="causal", shift=True, causal=True)


class Draft(Strict):
    """Masks behind a clean prefix that guess the tokens to come: `objectives.drafting`."""

    kind: Literal["draft"]
    block_length: int = Field(ge=2)
    """Masks per block: how far ahead drafts are trained."""
    depth_decay: float = Field(default=0.7, gt=0, le=1)
    """Weight of a guess, per token further ahead."""

    def denoising(self) -> Denoising:
        """How the result is decoded: as its base, which is left as it is."""
        return Denoising(attention="block", shift=True, context="causal", causal=True)


class Autoregressive(Strict):
    """Next-token prediction: `objectives.autoregressive`."""

    kind: Literal["autoregressive"]

    def denoising(self) -> Denoising:
        """It does not denoise."""
        return Denoising(attention="causal", shift=True, causal=True)


Simple = Annotated[
    Llada | Bd3lm | Sdar | FastDllmV2 | DiffusionGemma | Draft | Autoregressive, Field(discriminator="kind")
]


class Mixture(Strict):
    """Every step has one of several objectives, drawn by their shares."""

    kind: Literal["mixture"]
    shares: tuple[Annotated[float, Field(gt=0)], ...]
    """How often each part comes; only their ratios count."""
    parts: tuple[Simple, ...] = Field(min_length=2)
    """Objectives of any other kind; they must agree in how the result is decoded."""

    @model_validator(mode="after")
    def _agreeing(self) -> Mixture:
        if len(self.shares) != len(self.parts):
            raise ValueError(f"`shares` needs one number for each of {len(self.parts)} parts, got {len(self.shares)}")
        if len({reads_frozen(part) for part in self.parts}) > 1:
            raise ValueError("`parts` must all read clean text with the adapter off, or none of them")
        ways = {(replace(part.denoising(), causal=False), decoded_block(part)) for part in self.denoisers()}
        if len(ways) > 1:
            kinds = ", ".join(part.kind for part in self.denoisers())
            raise ValueError(f"`parts` ({kinds}) must agree in attention, shift, context and block length")
        return self

    def denoisers(self) -> list[Simple]:
        """The parts that say how the result is decoded in any order: drafts do so only where nothing else does."""
        denoisers: list[Simple] = [part for part in self.parts if not isinstance(part, Autoregressive | Draft)]
        return denoisers or [part for part in self.parts if isinstance(part, Draft)] or list(self.parts)

    def denoising(self) -> Denoising:
        """How the result is decoded."""
        causal = any(part.denoising().causal for part in self.parts)
        return replace(self.denoisers()[0].denoising(), causal=causal)


ObjectiveSpec = Annotated[
    Llada | Bd3lm | Sdar | FastDllmV2 | DiffusionGemma | Draft | Autoregressive | Mixture, Field(discriminator="kind")
]


def reads_frozen(spec: ObjectiveSpec) -> bool:
    """Is clean text read with the adapter off, so that what is learned can be kept apart from the base?"""
    if isinstance(spec, Mixture):
        return all(reads_frozen(part) for part in spec.parts)
    return isinstance(spec, Draft) or (isinstance(spec, FastDllmV2) and spec.context == "frozen")


def decoded_block(spec: ObjectiveSpec) -> int | None:
    """The block length that the result decodes with; None: it has no blocks."""
    if isinstance(spec, Mixture):
        return decoded_block(spec.denoisers()[0])
    return spec.block_length if isinstance(spec, Blocks | Draft) else None


def masks(spec: ObjectiveSpec) -> bool:
    """Does it feed a mask token?"""
    if isinstance(spec, Mixture):
        return any(masks(part) for part in spec.parts)
    return not isinstance(spec, Autoregressive | DiffusionGemma)


def self_conditioning(spec: ObjectiveSpec) -> float:
    """The largest share of steps with self-conditioning of any part."""
    if isinstance(spec, Mixture):
        return max(self_conditioning(part) for part in spec.parts)
    return spec.self_conditioning if isinstance(spec, DiffusionGemma) else 0.0
