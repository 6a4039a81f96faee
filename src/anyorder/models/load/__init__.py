"""`load`: from a folder, GGUF file, hub id or the default model to a checked `LoadedModel`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from anyorder.errors import ParameterError
from anyorder.models.gemma.network import DiffusionGemma
from anyorder.models.linear import can_pack
from anyorder.models.load.adapter import read_adapter
from anyorder.models.load.build import build
from anyorder.models.load.images import ImageReader
from anyorder.models.load.ngrams import read_ngrams
from anyorder.models.load.place import automatic_dtype, choose_device, parse_dtype
from anyorder.models.load.survey import Survey, survey
from anyorder.models.load.vision import has_vision, read_vision
from anyorder.models.loaded import LoadedModel
from anyorder.models.quantised import Scheme, parse_scheme
from anyorder.models.shift import check_shift
from anyorder.models.transformer import Transformer


def load(
    source: str | Path | None = None,
    *,
    revision: str | None = None,
    adapter: str | Path | Literal[False] | None = None,
    dtype: str | torch.dtype = "auto",
    device: str | torch.device = "auto",
    mask_token_id: int | None = None,
    block_length: int | None = None,
    shift: bool | None = None,
    offline: bool = False,
    pack: bool | None = None,
    quantize: str | None = None,
    verify: bool | None = None,
) -> LoadedModel:
    """Load a checkpoint; safetensors and JSON only, no code from the checkpoint runs.

    Args:
        source: folder, *.gguf file, hub id "owner/name"; "tasks", a small any-order model; None or
            "smollm2" is the default model of this package.
        revision: branch, tag or commit of a hub id.
        adapter: folder or hub id of a LoRA adapter in peft's layout, which the network denoises with; its causal mode
            stays that of the base. None: the one that belongs to the default model, or that `source` itself is; False:
            none.
        dtype: "auto" keeps float32 and turns half-precision checkpoints into bfloat16; or "float32", "float64",
            "bfloat16", "float16".
        device: "auto" (CUDA, else MPS, else CPU), or a PyTorch device.
        mask_token_id: overrides config.json, tokenizer and family. An autoregressive model has none; see
            `anyorder.models.load.resolve.resolve_mask` for the token that stands in.
        block_length: overrides config.json and the family.
        shift: overrides the family: do the logits of position i predict token i + 1? See `check_shift`.
        offline: never ask the hub, use what is in its local cache.
        pack: oneDNN weight layout: faster on a CPU, inference only. None: wherever it works; False: plain
            trainable parameters.
        quantize: keep the matrices in fewer bits: "int8" or "int4" weights, or "int8-dynamic", weights and activations.
            Inference only; see docs/quantised.md for errors and speeds. None: no.
        verify: run the shift self-check on the loaded weights, one small forward pass (see `check_shift`). None: for
            models that denoise and have a tokenizer; an autoregressive model is known to be shifted.
    Raises:
        ModelError: not found, not supported, damaged, or at odds with its tokenizer; see the subclasses.
        MissingExtra: the default model's weights are not installed.
        ParameterError: an argument is wrong.
    """
    scheme = _checked_scheme(quantize, pack)
    chosen_device = choose_device(device)
    asked_dtype = parse_dtype(dtype, chosen_device)  # before a long download
    found = survey(
        source,
        revision=revision,
        adapter=adapter,
        mask_token_id=mask_token_id,
        block_length=block_length,
        shift=shift,
        offline=offline,
    )
    chosen_dtype = asked_dtype or automatic_dtype(found.checkpoint.dtype())
    network = build(
        found.config,
        found.spec.weight_names(found.config),
        found.checkpoint,
        device=chosen_device,
        dtype=chosen_dtype,
        pack=_choose_pack(pack, chosen_device, chosen_dtype),
        scheme=scheme,
    )
    names = found.spec.weight_names(found.config)
    images = _images(found, network, chosen_device, chosen_dtype)
    model = LoadedModel(
        network=network,
        adapter=found.adapter
        and read_adapter(found.adapter, found.config, names, device=chosen_device, dtype=chosen_dtype),
        config=found.config,
        spec=found.spec,
        tokenizer=found.tokenizer,
        mask_token_id=found.mask_token_id,
        stop_ids=found.stop_ids,
        edit_ids=found.edit_ids,
        block_length=found.block_length,
        images=images,
        ngrams=read_ngrams(found.source, _folders(found), found.config.vocab_size),
        source=found.source,
    )
    if model.spec.attention != "causal" and model.tokenizer is not None if verify is None else verify:
        check_shift(model).require()
    return model


def _images(found: Survey, network: Transformer, device: torch.device, dtype: torch.dtype) -> ImageReader | None:
    """Set the network's vision tower and say how images are cut; None where the checkpoint has no tower."""
    if not isinstance(network, DiffusionGemma) or network.gemma.vision is None or not has_vision(found.checkpoint):
        return None
    config = network.gemma.vision
    network.vision = read_vision(config, network.gemma.hidden_size, found.checkpoint, device=device, dtype=dtype)
    return ImageReader(found.folder, config)


def _folders(found: Survey) -> list[Path]:
    return [found.folder, *([found.adapter.folder] if found.adapter else [])]


def _checked_scheme(quantize: str | None, pack: bool | None) -> Scheme | None:
    if quantize is not None and pack is not None:
        raise ParameterError("quantised weights have a layout of their own: drop `pack`", param="pack")
    return parse_scheme(quantize)


def _choose_pack(pack: bool | None, device: torch.device, dtype: torch.dtype) -> bool:
    possible = can_pack(device, dtype)
    if pack and not possible:
        raise ParameterError(
            f"pack=True needs oneDNN, a CPU and float32 or bfloat16, got {device} and {dtype}; leave pack out",
            param="pack",
        )
    return possible if pack is None else pack
