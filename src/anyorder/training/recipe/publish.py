"""The result of a run as others load it: the published layout of its base, or peft's layout of an adapter."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyorder.models.families import FAMILIES
from anyorder.models.families.converted import KEY, Denoising
from anyorder.models.load.adapter import CONFIG, WEIGHTS, write_adapter
from anyorder.models.load.folder import read_config
from anyorder.models.load.place import DTYPES
from anyorder.models.load.survey import Survey
from anyorder.models.load.write import write_safetensors
from anyorder.training.conditioning import PREFIX
from anyorder.training.interfaces import Publish
from anyorder.training.recipe.mask import MaskToken, named_in_config, with_token
from anyorder.training.recipe.network import Merged, full_tensors, trained_adapter
from anyorder.training.recipe.objectives import Autoregressive
from anyorder.training.recipe.spec import Lora, Recipe

COPIED = (
    "tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja", "chat_template.json", "generation_config.json",
)  # fmt: skip
"""Files of the base that the result needs as they are."""
CONDITIONING = "self_conditioning.safetensors"
MODEL_FILES = ("config.json", "model.safetensors", CONDITIONING, CONFIG, WEIGHTS, *COPIED)
"""All that may be written."""
REMOTE = ("auto_map", "quantization_config")
"""Keys of config.json that speak of files which are not copied, or of how weights were stored."""


def publisher(recipe: Recipe, found: Survey, mask: MaskToken | None) -> Publish:
    """The function that writes the model of a run: an empty folder, and the trained parameters by name."""
    dtype = DTYPES[recipe.precision.publish]

    def publish(folder: Path, weights: Mapping[str, Tensor]) -> None:
        if recipe.publishes_adapter:
            assert isinstance(recipe.method, Lora)
            adapter = trained_adapter(recipe.method, found.config, mask, weights)
            names = found.spec.weight_names(found.config)
            source, block = recipe.model.source, recipe.block_length
            write_adapter(folder, adapter, names, base=source, block_length=block, dtype=dtype)
            return
        config = found.config if mask is None else replace(found.config, vocab_size=mask.vocab_size)
        places = found.spec.weight_names(config)
        if isinstance(recipe.method, Lora):
            values = Merged(trained_adapter(recipe.method, config, mask, weights), mask, places, found)
        else:
            values = full_tensors(places, weights)
        shapes = {name: place.shape for name, place in places.items()}
        write_safetensors(folder / "model.safetensors", shapes, dtype, values)
        _write_conditioning(folder, weights, dtype)
        _write_config(folder, recipe, found, mask)
        _write_tokenizer(folder, found, mask)

    return publish


def _write_conditioning(folder: Path, weights: Mapping[str, Tensor], dtype: torch.dtype) -> None:
    """The module for self-conditioning, in a file of its own: no architecture has a place for it."""
    own = {name.removeprefix(PREFIX): value for name, value in weights.items() if name.startswith(PREFIX)}
    if own:
        shapes = {name: tuple(value.shape) for name, value in own.items()}
        write_safetensors(folder / CONDITIONING, shapes, dtype, lambda name: own[name])


def _write_config(folder: Path, recipe: Recipe, found: Survey, mask: MaskToken | None) -> None:
    """config.json of the base, with what the loader must know of the result."""
    config = {key: value for key, value in read_config(found.folder).items() if key not in REMOTE}
    for key in {"dtype", "torch_dtype"} & config.keys() or {"torch_dtype"}:
        config[key] = recipe.precision.publish
    if not isinstance(recipe.objective, Autoregressive):
        if not _published_so(found, recipe.objective.denoising()):
            config[KEY] = recipe.objective.denoising().table()
        if mask is not None:
            config = named_in_config(config, mask)
        if recipe.block_length is not None:
            config["block_length"] = recipe.block_length
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def _published_so(found: Survey, way: Denoising) -> bool:
    """Was the family published to be denoised in this way? Then config.json has nothing to add."""
    spec = FAMILIES[found.spec.name]
    return way.attention == "bidirectional" == spec.attention and way.shift == spec.shift


def _write_tokenizer(folder: Path, found: Survey, mask: MaskToken | None) -> None:
    for name in COPIED:
        if (found.folder / name).is_file():
            shutil.copyfile(found.folder / name, folder / name)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8")) if path.exists() else {}
    new = None if mask is None else mask.text
    if found.tokenizer is None or (new is None and "auto_map" not in config):
        return
    backend = found.tokenizer.files.backend
    (backend if new is None else with_token(backend, new)).save(str(folder / "tokenizer.json"))
    if config.pop("auto_map", None) is not None:  # names code that is not copied, and that tokenizer.json does without
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
    if mask is not None and new is not None:
        _add_mask(config, new, mask.token_id)
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _add_mask(config: dict[str, Any], text: str, token_id: int) -> None:
    config["mask_token"] = text
    if "added_tokens_decoder" in config:
        config["added_tokens_decoder"][str(token_id)] = {
            "content": text, "special": True, "normalized": False, "lstrip": False, "rstrip": False,
            "single_word": False,
        }  # fmt: skip
