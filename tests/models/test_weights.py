"""Damaged, incomplete and foreign weights: each is one line that names the file or the tensors."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.models.tiny_models import LLAMA, logits, random_tensors, write_checkpoint

from anyorder.errors import WeightsError
from anyorder.models.load import load
from anyorder.models.load.safetensors import Checkpoint
from anyorder.models.load.write import write_safetensors

IDS = torch.tensor([1, 2, 3])


def test_shards_equal_one_file(tmp_path: Path) -> None:
    tensors = random_tensors(LLAMA)
    whole = write_checkpoint(tmp_path / "whole", LLAMA, tensors)
    folder = write_checkpoint(tmp_path / "shards", LLAMA, tensors)
    (folder / "model.safetensors").unlink()
    files = {name: f"model-{index % 2 + 1:05}-of-00002.safetensors" for index, name in enumerate(tensors)}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in tensors if files[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}), "utf-8")
    with torch.inference_mode():
        assert torch.equal(logits(load(folder).network, IDS), logits(load(whole).network, IDS))
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"1 of 2 shards are missing, first model-00002-of-00002.safetensors"):
        load(folder)


@pytest.mark.parametrize("keep", [0, 5, 60, -1])
def test_a_truncated_file_is_named(tmp_path: Path, keep: int) -> None:
    path = write_checkpoint(tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(WeightsError, match=r"model.safetensors .*download it again"):
        load(tmp_path)


@pytest.mark.parametrize("header", [b"not json", b"[1, 2]", b'{"a": {"dtype": "F32"}}', b'{"a": 3}'])
def test_a_damaged_header_is_an_error_of_one_line(tmp_path: Path, header: bytes) -> None:
    path = write_checkpoint(tmp_path) / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(WeightsError, match="header"):
        load(tmp_path)


def test_sizes_that_do_not_fit_their_shape_are_refused(tmp_path: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(WeightsError, match="8 bytes for shape"):
        Checkpoint(tmp_path)


def test_quantised_dtypes_are_refused_by_name(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(4, dtype=torch.int8)}, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=r"has dtype I8, which is not read; known: F64, F32, F16, BF16\. Take"):
        Checkpoint(tmp_path)


def test_missing_tensors_are_named_and_counted(tmp_path: Path) -> None:
    tensors = random_tensors(LLAMA)
    gone = [name for name in tensors if ".self_attn." in name]
    write_checkpoint(tmp_path, LLAMA, {name: tensors[name] for name in tensors if name not in gone})
    with pytest.raises(WeightsError, match=rf"self_attn\.\w+_proj\.weight.* and {len(gone) - 3} more missing"):
        load(tmp_path)


def test_unknown_tensors_are_named(tmp_path: Path) -> None:
    extra = {"model.layers.0.mlp.experts.0.up_proj.weight": torch.zeros(2)}
    write_checkpoint(tmp_path, LLAMA, {**random_tensors(LLAMA), **extra})
    with pytest.raises(WeightsError, match=r"mlp\.experts\.0\.up_proj\.weight unknown to this architecture"):
        load(tmp_path)


def test_wrong_shapes_are_named(tmp_path: Path) -> None:
    tensors = random_tensors(LLAMA)
    tensors["model.layers.1.mlp.up_proj.weight"] = torch.zeros(48, 31)
    write_checkpoint(tmp_path, LLAMA, tensors)
    with pytest.raises(WeightsError, match=r"layers\.1\.mlp\.up_proj\.weight \[48, 31\] instead of \[48, 32\]"):
        load(tmp_path)


def test_rotary_tables_and_copies_of_a_tied_head_are_allowed(tmp_path: Path) -> None:
    raw: dict[str, Any] = {**LLAMA, "tie_word_embeddings": True}
    tensors = random_tensors(raw)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(4)
    assert load(write_checkpoint(tmp_path, raw, tensors)).config.tie_word_embeddings


def test_a_tied_head_that_differs_from_the_table_is_refused(tmp_path: Path) -> None:
    raw: dict[str, Any] = {**LLAMA, "tie_word_embeddings": True}
    tensors = random_tensors(raw)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + 1
    with pytest.raises(WeightsError, match=r"lm_head\.weight differs from .*tie_word_embeddings"):
        load(write_checkpoint(tmp_path, raw, tensors))


def test_pickled_weights_are_never_read(tmp_path: Path) -> None:
    (write_checkpoint(tmp_path) / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(WeightsError, match=r"pickled weights only.*convert them to safetensors"):
        load(tmp_path)


def test_a_folder_without_weights(tmp_path: Path) -> None:
    (write_checkpoint(tmp_path) / "model.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"holds no \*\.safetensors file"):
        load(tmp_path)


@pytest.mark.parametrize("stored", [torch.float64, torch.float16, torch.bfloat16])
def test_other_stored_dtypes_are_converted(tmp_path: Path, stored: torch.dtype) -> None:
    tensors = {name: tensor.to(stored) for name, tensor in random_tensors(LLAMA).items()}
    exact = {name: tensor.float() for name, tensor in tensors.items()}
    ours = load(write_checkpoint(tmp_path / "stored", LLAMA, tensors), dtype="float32").network
    same = load(write_checkpoint(tmp_path / "exact", LLAMA, exact)).network
    with torch.inference_mode():
        assert torch.equal(logits(ours, IDS), logits(same, IDS))


def test_unaligned_data_is_read(tmp_path: Path) -> None:
    value = torch.arange(6, dtype=torch.float32)
    header = json.dumps({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
    header += b" " * (3 - len(header) % 4)
    assert (8 + len(header)) % 4
    content = struct.pack("<Q", len(header)) + header + value.numpy().tobytes()
    (tmp_path / "model.safetensors").write_bytes(content)
    assert Checkpoint(tmp_path).tensor("a").tolist() == value.view(2, 3).tolist()


def test_the_writer_is_read_back(tmp_path: Path) -> None:
    tensors = {"b": torch.randn(3, 5), "a": torch.randn(2), "empty": torch.empty(0, 4)}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    write_safetensors(tmp_path / "model.safetensors", shapes, torch.bfloat16, lambda name: tensors[name])
    read = Checkpoint(tmp_path)
    assert read.dtype() == torch.bfloat16
    for name, tensor in tensors.items():
        assert torch.equal(read.tensor(name), tensor.bfloat16())


def test_released_pages_are_read_again(tmp_path: Path) -> None:
    save_file({"a": torch.arange(5000.0), "b": torch.ones(3)}, tmp_path / "model.safetensors")
    checkpoint = Checkpoint(tmp_path)
    view = checkpoint.tensor("a")
    assert view[4999] == 4999
    checkpoint.release("a")
    assert view.sum() == torch.arange(5000.0).sum()
