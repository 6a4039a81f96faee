"""`load`: from a folder, GGUF file, hub id or the default model to a checked `LoadedModel`."""

from __future__ import annotations

from pathlib import Path

import torch

from anyorder.errors import ParameterError
from anyorder.models.families import recognise
from anyorder.models.linear import can_pack
from anyorder.models.load.build import build
from anyorder.models.load.folder import read_config, read_table
from anyorder.models.load.place import choose_device, choose_dtype
from anyorder.models.load.resolve import resolve_block, resolve_mask, resolve_stops
from anyorder.models.load.safetensors import Checkpoint
from anyorder.models.load.source import DEFAULT, locate
from anyorder.models.loaded import LoadedModel
from anyorder.models.tokenizer import read_tokenizer


def load(
    source: str | Path | None = None,
    *,
    revision: str | None = None,
    dtype: str | torch.dtype = "auto",
    device: str | torch.device = "auto",
    mask_token_id: int | None = None,
    block_length: int | None = None,
    offline: bool = False,
    pack: bool | None = None,
) -> LoadedModel:
    """Load a checkpoint; safetensors and JSON only, no code from the checkpoint runs.

    Args:
        source: folder, *.gguf file, hub id "owner/name"; None or "smollm2" is the default model of this package.
        revision: branch, tag or commit of a hub id.
        dtype: "auto" keeps float32 and turns half-precision checkpoints into bfloat16; or "float32", "float64",
            "bfloat16", "float16".
        device: "auto" (CUDA, else MPS, else CPU), or a PyTorch device.
        mask_token_id: overrides config.json, tokenizer and family. An autoregressive model has none; see
            `anyorder.models.load.resolve.resolve_mask` for the token that stands in.
        block_length: overrides config.json and the family.
        offline: never ask the hub, use what is in its local cache.
        pack: oneDNN weight layout: faster on a CPU, inference only. None: wherever it works; False: plain
            trainable parameters.
    Raises:
        ModelError: not found, not supported, damaged, or at odds with its tokenizer; see the subclasses.
        ParameterError: an argument is wrong.
    """
    _check_revision(source, revision)
    folder = locate(source, revision=revision, offline=offline)
    raw = read_config(folder)
    spec = recognise(raw)
    config = spec.parse(raw)
    tokenizer = read_tokenizer(folder)
    mask = resolve_mask(mask_token_id, raw, config, spec, tokenizer)
    stops = resolve_stops(raw, read_table(folder / "generation_config.json"), config, spec, tokenizer)
    block = resolve_block(block_length, raw, spec)
    checkpoint = Checkpoint(folder)
    chosen_device = choose_device(device)
    chosen_dtype = choose_dtype(dtype, checkpoint.dtype(), chosen_device)
    network = build(
        config,
        spec.weight_names(config),
        checkpoint,
        device=chosen_device,
        dtype=chosen_dtype,
        pack=_choose_pack(pack, chosen_device, chosen_dtype),
    )
    return LoadedModel(
        network=network,
        config=config,
        spec=spec,
        tokenizer=tokenizer,
        mask_token_id=mask,
        stop_ids=stops,
        block_length=block,
        source=str(DEFAULT if source is None else source),
    )


def _choose_pack(pack: bool | None, device: torch.device, dtype: torch.dtype) -> bool:
    possible = can_pack(device, dtype)
    if pack and not possible:
        raise ParameterError(
            f"pack=True needs oneDNN, a CPU and float32 or bfloat16, got {device} and {dtype}; leave pack out",
            param="pack",
        )
    return possible if pack is None else pack


def _check_revision(source: str | Path | None, revision: str | None) -> None:
    if revision is not None and (source is None or source == DEFAULT or Path(source).expanduser().exists()):
        raise ParameterError(f"revision {revision!r} only applies to a hub id, got {source!r}", param="revision")
