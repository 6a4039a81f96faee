"""Everything that is known about a checkpoint before its weights are read."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from anyorder.errors import ParameterError
from anyorder.models.config import ModelConfig
from anyorder.models.families import recognise
from anyorder.models.load.check import check_tensors
from anyorder.models.load.folder import read_config, read_table
from anyorder.models.load.resolve import resolve_block, resolve_mask, resolve_stops
from anyorder.models.load.safetensors import Checkpoint
from anyorder.models.load.source import DEFAULT, locate
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
    block_length: int | None
    checkpoint: Checkpoint


def survey(
    source: str | Path | None = None,
    *,
    revision: str | None = None,
    mask_token_id: int | None = None,
    block_length: int | None = None,
    shift: bool | None = None,
    offline: bool = False,
) -> Survey:
    """Find, recognise and check a checkpoint without reading its weights; arguments and errors as in `load`."""
    _check_revision(source, revision)
    folder = locate(source, revision=revision, offline=offline)
    raw = read_config(folder)
    spec = recognise(raw)
    config = spec.parse(raw)
    tokenizer = read_tokenizer(folder)
    checkpoint = Checkpoint(folder)
    check_tensors(spec.weight_names(config), checkpoint, tied=config.tie_word_embeddings)
    return Survey(
        source=str(DEFAULT if source is None else source),
        folder=folder,
        spec=spec if shift is None else dataclasses.replace(spec, shift=shift),
        config=config,
        tokenizer=tokenizer,
        mask_token_id=resolve_mask(mask_token_id, raw, config, spec, tokenizer),
        stop_ids=resolve_stops(raw, read_table(folder / "generation_config.json"), config, spec, tokenizer),
        block_length=resolve_block(block_length, raw, spec),
        checkpoint=checkpoint,
    )


def _check_revision(source: str | Path | None, revision: str | None) -> None:
    if revision is not None and (source is None or source == DEFAULT or Path(source).expanduser().exists()):
        raise ParameterError(f"revision {revision!r} only applies to a hub id, got {source!r}", param="revision")
