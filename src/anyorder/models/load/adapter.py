"""LoRA adapters on disk: the layout of peft, `adapter_config.json` and `adapter_model.safetensors`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyorder.errors import ModelError, ParameterError, WeightsError
from anyorder.models.adapter import PRODUCTS, Adapter, LowRank, product_sizes
from anyorder.models.config import ModelConfig
from anyorder.models.load.folder import read_table
from anyorder.models.load.safetensors import Entry, MappedFile, view
from anyorder.models.load.write import write_safetensors
from anyorder.models.weights import Place

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
ROOT = "base_model.model."
BLOCK_KEY = "block_length"
"""In the metadata of the weights, where peft has no place for it."""
REFUSED = {
    "use_dora": False,
    "use_rslora": False,
    "lora_bias": False,
    "fan_in_fan_out": False,
    "bias": "none",
    "rank_pattern": {},
    "alpha_pattern": {},
    "modules_to_save": None,
    "layer_replication": None,
    "target_parameters": None,
}
"""What only these values are supported of."""


@dataclass(frozen=True)
class AdapterFiles:
    """A folder's adapter before its weights are read.

    Raises:
        ModelError: no adapter is there, or it is of a kind that cannot be used.
        WeightsError: its weights are missing or damaged.
    """

    folder: Path
    config: Mapping[str, Any]
    base: str | None
    """The model that it belongs to, as peft names it."""
    mask_token_id: int | None
    """Whose embedding it brings along."""
    block_length: int | None
    """Of the blocks that it was trained to denoise."""

    @classmethod
    def of(cls, folder: Path) -> AdapterFiles:
        """Read and check adapter_config.json."""
        config = read_table(folder / CONFIG)
        if not config:
            raise ModelError(f"{folder} has no {CONFIG}, so it is no LoRA adapter")
        if config.get("peft_type") != "LORA":
            raise ModelError(f"{folder / CONFIG}: peft_type {config.get('peft_type')!r} is not supported, only 'LORA'")
        for key, only in REFUSED.items():
            if config.get(key) not in (only, None):
                raise ModelError(f"{folder / CONFIG}: {key} {config[key]!r} is not supported, only {only!r}")
        if not (folder / WEIGHTS).is_file():
            raise WeightsError(f"{folder} has no {WEIGHTS}; other files than safetensors are not read")
        block = MappedFile(folder / WEIGHTS).metadata().get(BLOCK_KEY)
        return cls(
            folder=folder,
            config=config,
            base=config.get("base_model_name_or_path"),
            mask_token_id=_mask_token(config, folder),
            block_length=None if block is None else int(block),
        )


def is_adapter(folder: Path) -> bool:
    """A folder that holds an adapter and no model of its own."""
    return (folder / CONFIG).is_file() and not (folder / "config.json").exists()


def read_adapter(
    files: AdapterFiles, config: ModelConfig, names: Mapping[str, Place], *, device: torch.device, dtype: torch.dtype
) -> Adapter:
    """The adapter of a network.

    Args:
        config: of the network.
        names: `FamilySpec.weight_names` of the network.
    Raises:
        ModelError: the adapter belongs to another network, or changes something that cannot be adapted.
    """
    rank, alpha = files.config.get("r"), files.config.get("lora_alpha")
    if not isinstance(rank, int) or not isinstance(alpha, int | float):
        raise ModelError(f"{files.folder / CONFIG}: r and lora_alpha must be numbers, got {rank!r} and {alpha!r}")
    tensors = _Tensors(files.folder / WEIGHTS)
    adapter = Adapter(config, rank=rank, alpha=alpha, mask_token_id=files.mask_token_id)
    sizes = product_sizes(config)
    with torch.no_grad():
        for layer, parts in enumerate(adapter.layers):
            assert isinstance(parts, torch.nn.ModuleDict)
            for product in PRODUCTS:
                changes = list(_changes(tensors, names, f"layers.{layer}.{product}.weight", rank))
                parts[product] = _together(changes, *sizes[product], rank)
        if adapter.mask_embedding is not None:
            adapter.mask_embedding.copy_(tensors.take(_embedding_name(names), (1, config.hidden_size))[0])
    tensors.all_used()
    return adapter.to(device=device, dtype=dtype).requires_grad_(False)


def write_adapter(
    folder: Path,
    adapter: Adapter,
    names: Mapping[str, Place],
    *,
    base: str,
    block_length: int | None,
    dtype: torch.dtype = torch.bfloat16,
) -> None:
    """Write an adapter so that peft can read it, too.

    peft knows no A that several matrices share: each gets a copy.

    Args:
        names: `FamilySpec.weight_names` of the network.
        base: the model that it belongs to: "smollm2", a hub id or a folder.
        block_length: of the blocks that it was trained to denoise.
        dtype: of the stored numbers.
    """
    stored: dict[str, Tensor] = {}
    for name, place in names.items():
        if (change := _adapted(adapter, place)) is not None:
            if change.down.shape[0] != adapter.rank:
                raise ParameterError("an adapter whose matrices share no A cannot be written again", param="adapter")
            module = ROOT + name.removesuffix(".weight")
            stored[f"{module}.lora_A.weight"] = change.down
            stored[f"{module}.lora_B.weight"] = change.up[place.start : place.start + place.shape[0]]
    if adapter.mask_embedding is not None:
        stored[_embedding_name(names)] = adapter.mask_embedding[None]
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(
        folder / WEIGHTS,
        {name: tuple(tensor.shape) for name, tensor in stored.items()},
        dtype,
        lambda name: stored[name].detach().cpu(),
        metadata={} if block_length is None else {BLOCK_KEY: str(block_length)},
    )
    (folder / CONFIG).write_text(json.dumps(_config(adapter, names, base), indent=2) + "\n", "utf-8")


def _config(adapter: Adapter, names: Mapping[str, Place], base: str) -> dict[str, Any]:
    modules = {name.removesuffix(".weight").split(".")[-1] for name, p in names.items() if _adapted(adapter, p)}
    masks = None if adapter.mask_token_id is None else [adapter.mask_token_id]
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": adapter.rank,
        "lora_alpha": adapter.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(modules),
        "trainable_token_indices": masks,
        "inference_mode": True,
    }


def _adapted(adapter: Adapter, place: Place) -> LowRank | None:
    """The change of the matrix that a published tensor is part of."""
    parts = place.parameter.split(".")
    if len(parts) != 4 or parts[2] not in PRODUCTS or parts[3] != "weight":
        return None
    found = adapter.get_submodule(".".join(parts[:3]))
    assert isinstance(found, LowRank)
    return found


def _mask_token(config: Mapping[str, Any], folder: Path) -> int | None:
    named = config.get("trainable_token_indices")
    named = next(iter(named.values()), None) if isinstance(named, dict) else named
    if not named:
        return None
    if not isinstance(named, list) or len(named) != 1:
        raise ModelError(
            f"{folder / CONFIG}: trainable_token_indices must name the mask token and no other, got {named!r}"
        )
    return named[0]


def _embedding_name(names: Mapping[str, Place]) -> str:
    table = next(name for name, place in names.items() if place.parameter == "embed.weight")
    return f"{ROOT}{table.removesuffix('.weight')}.token_adapter.trainable_tokens_delta"


@dataclass(frozen=True)
class _Change:
    """A and B of one published matrix, whose rows begin at `start` of our product."""

    start: int
    down: Tensor
    up: Tensor


def _changes(tensors: _Tensors, names: Mapping[str, Place], parameter: str, rank: int) -> Iterator[_Change]:
    for name, place in names.items():
        module = ROOT + name.removesuffix(".weight")
        if place.parameter == parameter and f"{module}.lora_A.weight" in tensors.entries:
            down = tensors.take(f"{module}.lora_A.weight", (rank, place.shape[1]))
            yield _Change(place.start, down, tensors.take(f"{module}.lora_B.weight", (place.shape[0], rank)))


def _together(changes: list[_Change], in_features: int, out_features: int, rank: int) -> LowRank:
    """One change for a product of several matrices: they share an A if theirs are equal, else each keeps its own."""
    shared = all(torch.equal(change.down, changes[0].down) for change in changes)
    found = LowRank(in_features, out_features, rank * (min(1, len(changes)) if shared else len(changes)))
    found.up.zero_()
    for number, change in enumerate(changes):
        columns = slice(0, rank) if shared else slice(number * rank, (number + 1) * rank)
        found.down[columns] = change.down.to(found.down)
        found.up[change.start : change.start + change.up.shape[0], columns] = change.up.to(found.up)
    return found


class _Tensors:
    """The tensors of the weights file, each to be taken once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[str, Entry] = MappedFile(path).entries()
        self.left = set(self.entries)

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A view into the file."""
        entry = self.entries.get(name)
        if entry is None:
            raise WeightsError(f"{self.path} has no tensor {name}, which {CONFIG} promises")
        if entry.shape != shape:
            raise ModelError(f"{self.path}: {name} has shape {list(entry.shape)}, this model needs {list(shape)}")
        self.left.remove(name)
        return view(entry)

    def all_used(self) -> None:
        """Raises ModelError for a tensor that nothing in the network takes."""
        if self.left:
            raise ModelError(
                f"{self.path}: {len(self.left)} tensors belong to no matrix that can be adapted, for example "
                f"{min(self.left)}; is it an adapter of this model?"
            )
