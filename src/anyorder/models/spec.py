"""A model family is data: what a decoder and a loader must know that the weights do not say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from anyorder.models.config import ModelConfig, parse_hf
from anyorder.models.weights import Place, hf_names


@dataclass(frozen=True, kw_only=True)
class FamilySpec:
    """Published facts and defaults of one family; a loaded model may override the ids (see `LoadedModel`)."""

    name: str
    title: str
    """For people: the checkpoints that belong here."""
    architectures: tuple[str, ...]
    """`config.json` `architectures[0]`, looked at first: several checkpoints lie in `model_type`."""
    model_types: tuple[str, ...]
    """Looked at only when config.json names no architecture."""
    attention: Literal["bidirectional", "block", "causal"]
    """How it was trained to denoise; "causal" is a plain autoregressive model."""
    blocks_both_ways: bool = False
    """With attention "causal": the network itself denoises a block both ways behind text that its causal mode reads."""
    blocks: Literal["grid", "seeded", "reordered"] = "grid"
    """How blocks are decoded: counted from the text's beginning; or from the end of the prompt, each with a first slot
    that the causal mode predicts (`seeded`, needs `blocks_both_ways`), or with masks that are read behind all known
    tokens (`reordered`)."""
    shift: bool
    """True: the logits of position i predict token i + 1."""
    mask_token: str | None = None
    """Published string of the mask token."""
    mask_token_id: int | None = None
    """Published id; config.json, the tokenizer and the user's argument come first."""
    mask_is_last: bool = False
    """The mask is the last row of the embedding table and has no string."""
    noise: Literal["mask", "uniform"] = "mask"
    """What it was trained to clean: masks, or tokens drawn from the whole vocabulary (it then has no mask token)."""
    spare_tokens: tuple[str, ...] = ()
    """Autoregressive families: hardly used tokens, tried in this order to serve as the mask."""
    unprompted: Literal["no", "nothing", "bos"] = "no"
    """What an empty prompt becomes where the model was trained to write without one."""
    foreign_token: str | None = None
    """A token of checkpoints that carry this architecture's name, but are decoded in another way that is not here."""
    stop_tokens: tuple[str, ...] = ()
    """Strings looked up in the tokenizer; they stop an answer besides config.json's eos."""
    block_length: int | None = None
    """Default block; None: free."""
    sub_block_length: int | None = None
    """Default sub-block inside a block; None: the block is not divided."""
    threshold: float | None = None
    """Its published commit threshold; None: that of the policy."""
    strict_threshold: bool = False
    """Its published threshold policy commits at `>` instead of `>=`."""
    block_keys: tuple[str, ...] = ()
    """Keys of config.json that may hold the trained block length."""
    decoder: Literal["causal", "full", "block"]
    """Default decoding mode."""
    modes: tuple[Literal["causal", "full", "block"], ...]
    policy: str
    """Default commit policy."""
    caches: tuple[Literal["none", "block", "prefix", "dual", "sub_block"], ...]
    confidence: Literal["raw", "filtered"]
    """Commit confidence from the logits at temperature 1, or from the temperature/top-k/top-p filtered ones."""
    filter_order: Literal["top_p_first", "top_k_first", "before_temperature"] = "top_p_first"
    nucleus: Literal["through", "below"] = "through"
    """Its top-p keeps the token that crosses p, or only those before it (and the best)."""
    slides: bool = False
    """It writes beyond its context with a window that slides, block by block."""
    edits: bool = False
    """Some of its checkpoints were trained to correct tokens that they committed."""
    infill: bool
    """Was trained to see text on both sides of a hole."""
    source: str
    """Where these facts come from."""
    parse: Callable[[Mapping[str, Any]], ModelConfig] = parse_hf
    """config.json -> ModelConfig."""
    weight_names: Callable[[ModelConfig], dict[str, Place]] = hf_names
    """Published tensor name -> place in the network."""
    image_shapes: Callable[[ModelConfig], dict[str, tuple[int, ...]]] | None = None
    """Published name -> shape of the tensors that read images, which a checkpoint may lack; None: it reads none."""
    unused: tuple[str, ...] = ()
    """Beginnings of the names of published tensors that nothing here reads."""

    @property
    def inputs(self) -> tuple[Literal["text", "images"], ...]:
        """What a prompt may hold."""
        return ("text",) if self.image_shapes is None else ("text", "images")

    @property
    def drafts_blocks(self) -> bool:
        """Can a denoised block be the draft of its causal mode?"""
        return self.blocks_both_ways and not self.shift
