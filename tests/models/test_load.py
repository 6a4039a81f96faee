"""Arguments of `load`, what it resolves, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.tiny_models import BYTES, LLAMA, random_tensors, write_bpe, write_checkpoint

from anyorder.errors import ModelError, ParameterError, TokenizerMismatch
from anyorder.models.linear import Linear, PackedLinear, can_pack
from anyorder.models.load import load
from anyorder.models.load.survey import survey

QWEN2: dict[str, Any] = {**LLAMA, "architectures": ["Qwen2ForCausalLM"], "vocab_size": BYTES + 6}
DREAM: dict[str, Any] = {
    **LLAMA,
    "architectures": ["DreamModel"],
    "vocab_size": BYTES + 6,
    "mask_token_id": BYTES + 1,
    "eos_token_id": BYTES,
}
SDAR: dict[str, Any] = {**LLAMA, "architectures": ["SDARForCausalLM"], "vocab_size": BYTES + 6, "eos_token_id": BYTES}
FAST: dict[str, Any] = {
    **LLAMA,
    "architectures": ["Fast_dLLM_QwenForCausalLM"],
    "vocab_size": BYTES + 6,
    "bd_size": 16,
    "mask_token_id": BYTES + 1,
}
TOKENS = [{"content": "<|endoftext|>"}, {"content": "<|mask|>"}, {"content": "<|im_end|>"}]


def with_tokens(folder: Path, raw: dict[str, Any], *tokens: str) -> Path:
    write_checkpoint(folder, raw)
    write_bpe(folder, [{"content": token, "special": True} for token in tokens])
    return folder


class TestWhere:
    def test_nothing_there(self) -> None:
        with pytest.raises(ModelError, match=r"no model at '\./nowhere': give a folder, a \.gguf file, a hub id"):
            load("./nowhere")

    def test_a_missing_gguf_is_not_taken_for_a_hub_id(self) -> None:
        with pytest.raises(ModelError, match=r"no model at 'models/x\.gguf'"):
            load("models/x.gguf")

    def test_a_folder_without_config(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=r"has no config\.json, so it is no checkpoint folder"):
            load(tmp_path)

    def test_a_damaged_config(self, tmp_path: Path) -> None:
        (write_checkpoint(tmp_path) / "config.json").write_text('{"architectures": [', "utf-8")
        with pytest.raises(ModelError, match=r"config\.json cannot be read as JSON"):
            load(tmp_path)

    def test_one_file_of_a_checkpoint(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="is one file of a checkpoint; give its folder"):
            load(write_checkpoint(tmp_path) / "model.safetensors")

    def test_several_gguf_files(self, tmp_path: Path) -> None:
        for name in ("b.gguf", "a.gguf"):
            (tmp_path / name).write_bytes(b"")
        with pytest.raises(ModelError, match=r"holds 2 GGUF files; give one of them, for example .*a\.gguf"):
            load(tmp_path)

    def test_revision_is_for_the_hub(self, tmp_path: Path) -> None:
        with pytest.raises(ParameterError, match="revision 'v1' only applies to a hub id"):
            load(write_checkpoint(tmp_path), revision="v1")


class TestPlace:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"dtype": "int8"}, "dtype must be auto, float32, float64, bfloat16, float16, got 'int8'"),
            ({"dtype": torch.int8}, "dtype must be auto"),
            ({"dtype": "float16", "device": "cpu"}, "use bfloat16 or float32"),
            ({"device": "abacus"}, "device must be auto, cpu"),
            ({"device": "meta"}, "'meta' is not available here; available: cpu"),
            ({"pack": True, "dtype": "float64"}, "pack=True needs oneDNN"),
            ({"block_length": 0}, "block_length must be a positive integer, got 0"),
            ({"mask_token_id": 40}, r"mask_token_id must be in \[0, 40\), got 40"),
            ({"mask_token_id": -1}, "mask_token_id must be in"),
        ],
    )
    def test_wrong_arguments(self, tmp_path: Path, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ParameterError, match=message) as caught:
            load(write_checkpoint(tmp_path), **options)
        assert caught.value.param in options

    @pytest.mark.parametrize(
        ("stored", "asked", "expected"),
        [
            (torch.float32, "auto", torch.float32),
            (torch.float64, "auto", torch.float32),
            (torch.float16, "auto", torch.bfloat16),
            (torch.bfloat16, "auto", torch.bfloat16),
            (torch.bfloat16, "float32", torch.float32),
            (torch.float32, torch.float64, torch.float64),
        ],
    )
    def test_dtypes(self, tmp_path: Path, stored: torch.dtype, asked: str | torch.dtype, expected: torch.dtype) -> None:
        tensors = {name: tensor.to(stored) for name, tensor in random_tensors(LLAMA).items()}
        model = load(write_checkpoint(tmp_path, LLAMA, tensors), dtype=asked, device="cpu")
        assert model.dtype == expected
        assert model.device == torch.device("cpu")

    def test_packing_is_the_default_on_a_cpu_and_can_be_refused(self, tmp_path: Path) -> None:
        folder = write_checkpoint(tmp_path)
        expected = PackedLinear if can_pack(torch.device("cpu"), torch.float32) else Linear
        assert isinstance(load(folder, device="cpu").network.output, expected)
        assert isinstance(load(folder, pack=False).network.output, Linear)


class TestMask:
    def test_config_and_tokenizer_agree(self, tmp_path: Path) -> None:
        model = load(with_tokens(tmp_path, DREAM, "<|endoftext|>", "<|mask|>", "<|im_end|>"))
        assert model.mask_token_id == BYTES + 1
        assert model.stop_ids == (BYTES, BYTES + 2), "config's eos and the family's <|im_end|>"

    def test_they_disagree(self, tmp_path: Path) -> None:
        folder = with_tokens(tmp_path, DREAM, "<|endoftext|>", "<|pad|>", "<|mask|>")
        with pytest.raises(TokenizerMismatch, match=r"is '<\|pad\|>' in the tokenizer, expected '<\|mask\|>'; pass"):
            load(folder)
        assert load(folder, mask_token_id=BYTES + 2).mask_token_id == BYTES + 2

    def test_the_tokenizer_has_no_such_id(self, tmp_path: Path) -> None:
        with pytest.raises(TokenizerMismatch, match=f"mask_token_id {BYTES + 1} is None in the tokenizer"):
            load(with_tokens(tmp_path, DREAM, "<|endoftext|>"))

    def test_a_sibling_may_spell_its_mask_differently(self, tmp_path: Path) -> None:
        """iLLaDA is LLaDA with another mask id; an id that is no mask at all stays an error (above)."""
        model = load(with_tokens(tmp_path, DREAM, "<|endoftext|>", "[MASK]"))
        assert model.mask_token_id == BYTES + 1

    def test_masks_that_grow_are_refused(self, tmp_path: Path) -> None:
        """DreamOn names Dream's architecture; decoded as Dream its answers would have holes."""
        folder = with_tokens(tmp_path, DREAM, "<|endoftext|>", "<|mask|>", "<|expand|>")
        with pytest.raises(ModelError, match=r"dream \(Dream 7B.*the tokenizer has '<\|expand\|>', .*not supported"):
            load(folder)

    def test_outside_the_table(self, tmp_path: Path) -> None:
        with pytest.raises(TokenizerMismatch, match=r"mask_token_id 999 is outside the \d+ embedding rows"):
            load(write_checkpoint(tmp_path, {**DREAM, "mask_token_id": 999}))

    def test_from_the_tokenizer_when_the_config_is_silent(self, tmp_path: Path) -> None:
        assert load(with_tokens(tmp_path, SDAR, "<|endoftext|>", "<|im_end|>", "<|MASK|>")).mask_token_id == BYTES + 2

    def test_named_nowhere(self, tmp_path: Path) -> None:
        folder = with_tokens(tmp_path, SDAR, "<|endoftext|>")
        with pytest.raises(TokenizerMismatch, match=r"the tokenizer has no '<\|MASK\|>'; pass mask_token_id"):
            load(folder)

    def test_the_published_id_does_not_fit_a_small_table(self, tmp_path: Path) -> None:
        with pytest.raises(TokenizerMismatch, match=r"\(151669\) is outside the \d+ embedding rows; pass"):
            load(write_checkpoint(tmp_path, SDAR))

    def test_autoregressive_models_borrow_a_spare_token(self, tmp_path: Path) -> None:
        raw = {**LLAMA, "vocab_size": BYTES + 2}
        assert load(with_tokens(tmp_path, raw, "<s>", "<reponame>")).mask_token_id == BYTES + 1

    def test_autoregressive_models_borrow_an_unused_row(self, tmp_path: Path) -> None:
        assert load(with_tokens(tmp_path, QWEN2, "<|endoftext|>", "<|im_end|>")).mask_token_id == BYTES + 2

    def test_no_row_to_borrow(self, tmp_path: Path) -> None:
        assert load(write_checkpoint(tmp_path)).mask_token_id is None


class TestOther:
    def test_stop_ids_of_all_three_sources(self, tmp_path: Path) -> None:
        folder = with_tokens(tmp_path, {**SDAR, "eos_token_id": 7}, "<|im_end|>", "<|MASK|>")
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, 7, 4000]}), "utf-8")
        assert load(folder).stop_ids == (7, 9, BYTES)

    def test_block_length(self, tmp_path: Path) -> None:
        folder = write_checkpoint(tmp_path, FAST)
        assert survey(folder).block_length == 16
        assert survey(folder, block_length=8).block_length == 8
        assert survey(write_checkpoint(tmp_path, {**FAST, "bd_size": None})).block_length == 32

    def test_shift_can_be_overridden(self, tmp_path: Path) -> None:
        folder = write_checkpoint(tmp_path, DREAM)
        assert load(folder).spec.shift
        assert not load(folder, shift=False).spec.shift
