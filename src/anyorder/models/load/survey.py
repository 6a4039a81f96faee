"""Everything that is known about a checkpoint before its weights are read."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anyorder.errors import ModelError, ParameterError
from anyorder.models.config import ModelConfig
from anyorder.models.families import recognise
from anyorder.models.load.adapter import AdapterFiles, is_adapter
from anyorder.models.load.check import check_tensors
from anyorder.models.load.default import default_adapter
from anyorder.models.load.drawn import DrawnCheckpoint
from anyorder.models.load.folder import read_config, read_table
from anyorder.models.load.resolve import check_foreign, resolve_block, resolve_edits, resolve_mask, resolve_stops
from anyorder.models.load.safetensors import Checkpoint
from anyorder.models.load.source import BUILT_IN, DEFAULT, locate, locate_adapter
from anyorder.models.load.vision import has_vision
from anyorder.models.spec import FamilySpec
from anyorder.models.tokenizer import Tokenizer, read_tokenizer


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A recognised checkpoint whose files, names and shapes have been checked; fields as in `LoadedModel`."""

    source: str
    folder: Path
    spec: FamilySpec
    config: ModelConfig
    tokenizer: Tokenizer | None
    mask_token_id: int | None
    stop_ids: tuple[int, ...]
    edit_ids: tuple[int, int] | None
    block_length: int | None
    checkpoint: Checkpoint
    adapter: AdapterFiles | None


def survey(
    source: str | Path | None = None,
    *,
    revision: str | None = None,
    adapter: str | Path | Literal[False] | None = None,
    mask_token_id: int | None = None,
    block_length: int | None = None,
    shift: bool | None = None,
    offline: bool = False,
    drawn: int | None = None,
) -> Survey:
    """Find, recognise and check a checkpoint without reading its weights; arguments and errors as in `load`.

    Args:
        drawn: seed of weights that are drawn instead (`DrawnCheckpoint`); the folder may have none.
    """
    _check_revision(source, revision)
    folder = locate(source, revision=revision, offline=offline)
    found = find_adapter(source, folder, adapter, offline)
    if is_adapter(folder):
        folder = locate(base_of(folder), offline=offline)
    raw = read_config(folder)
    spec = recognise(raw)
    config = spec.parse(raw)
    if found is not None and (type(config) is not ModelConfig or config.moe is not None):
        raise ModelError(f"{spec.title} takes no LoRA adapter; merge it into the weights, or load it without one")
    tokenizer = read_tokenizer(folder)
    check_foreign(spec, tokenizer)
    checkpoint = _weights(folder, spec, config, drawn)
    return Survey(
        source=str(DEFAULT if source is None else source),
        folder=folder,
        spec=spec_with(spec, shift, found),
        config=config,
        tokenizer=tokenizer,
        mask_token_id=resolve_mask(_mask(mask_token_id, found), raw, config, spec, tokenizer),
        stop_ids=resolve_stops(raw, read_table(folder / "generation_config.json"), config, spec, tokenizer),
        edit_ids=resolve_edits(raw, config, spec),
        block_length=resolve_block(_block(block_length, found), raw, spec),
        checkpoint=checkpoint,
        adapter=found,
    )


def _weights(folder: Path, spec: FamilySpec, config: ModelConfig, drawn: int | None) -> Checkpoint:
    names = spec.weight_names(config)
    if drawn is not None:
        return DrawnCheckpoint(folder, names, drawn)
    checkpoint = Checkpoint(folder)
    shapes = {name: place.shape for name, place in names.items()}
    if spec.image_shapes is not None and has_vision(checkpoint):
        shapes |= spec.image_shapes(config)
    check_tensors(shapes, checkpoint, tied=config.tie_word_embeddings, unused=spec.unused)
    return checkpoint


def find_adapter(
    source: str | Path | None, folder: Path, adapter: str | Path | Literal[False] | None, offline: bool
) -> AdapterFiles | None:
    """The adapter to denoise with; `folder` is what `source` led to."""
    if is_adapter(folder):
        if adapter is not None:
            raise ParameterError(
                f"{source} is an adapter itself: give its base as the model, or no adapter, got {str(adapter)!r}",
                param="adapter",
            )
        return AdapterFiles.of(folder)
    if adapter is None:
        own = default_adapter() if source is None or source == DEFAULT else None
        return own and AdapterFiles.of(own)
    return None if adapter is False else AdapterFiles.of(locate_adapter(adapter, offline=offline))


def spec_with(spec: FamilySpec, shift: bool | None, adapter: AdapterFiles | None) -> FamilySpec:
    """The family's facts, overridden; what denoises with an adapter has learned to commit several slots at once."""
    if adapter is not None and spec.attention == "causal":
        spec = dataclasses.replace(spec, policy="threshold")
    return spec if shift is None else dataclasses.replace(spec, shift=shift)


def base_of(folder: Path) -> str:
    """The model that an adapter belongs to."""
    base = AdapterFiles.of(folder).base
    if base is None:
        raise ModelError(f"{folder} is an adapter that names no base; give the base as the model and this as `adapter`")
    return base


def _mask(argument: int | None, adapter: AdapterFiles | None) -> int | None:
    own = adapter and adapter.mask_token_id
    if argument is not None and own is not None and argument != own:
        raise ParameterError(
            f"mask_token_id must be {own}, which the adapter was trained with, got {argument}", param="mask_token_id"
        )
    return own if argument is None else argument


def _block(argument: int | None, adapter: AdapterFiles | None) -> int | None:
    return adapter.block_length if adapter is not None and argument is None else argument


def _check_revision(source: str | Path | None, revision: str | None) -> None:
    if revision is not None and (source is None or source in BUILT_IN or Path(source).expanduser().exists()):
        raise ParameterError(f"revision {revision!r} only applies to a hub id, got {source!r}", param="revision")
