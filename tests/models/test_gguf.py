"""GGUF files: tensors, metadata and tokenizer against the model that was written and against transformers' reader."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tests.models.tiny_models import LLAMA, causal, logits, random_tensors, write_checkpoint
from tokenizers.pre_tokenizers import Sequence as PreTokenizers
from torch import Tensor

from anyorder.errors import ModelError, WeightsError
from anyorder.models.load import load
from anyorder.models.load.cache import cached
from anyorder.models.load.gguf import GLOBAL_NAMES, LAYER_NAMES, converted
from anyorder.models.load.gguf_tokenizer import RULES
from anyorder.models.load.safetensors import Checkpoint

IDS = torch.tensor([3, 17, 0, 39, 5, 5, 22])
TOKENS = ["<unk>", "<|im_start|>", "<|im_end|>", "<mask>", *"abcdefghijklmnopqrstuvwxyzĠ0123456", "Ġa", "Ċ"]
CONTROL = 3


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYORDER_HOME", str(tmp_path / "home"))


def gguf_name(name: str) -> str:
    """The name of a published tensor in a GGUF file."""
    for ours, theirs in {theirs: ours for ours, theirs in GLOBAL_NAMES.items()}.items():
        if name == ours:
            return theirs
    _, _, layer, rest = name.split(".", 3)
    module, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{next(key for key, value in LAYER_NAMES.items() if value == module)}.{kind}"


def interleave(value: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to the rows of Llama's queries and keys."""
    return value.reshape(heads, 2, value.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(value.shape)


def write_gguf(
    path: Path,
    raw: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    arch: str = "llama",
    quantised: tuple[str, ...] = (),
    metadata: Mapping[str, Any] | None = None,
    vocabulary: Callable[[gguf.GGUFWriter], None] | None = None,
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(raw["num_hidden_layers"])
    writer.add_context_length(raw["max_position_embeddings"])
    writer.add_embedding_length(raw["hidden_size"])
    writer.add_feed_forward_length(raw["intermediate_size"])
    writer.add_head_count(raw["num_attention_heads"])
    writer.add_head_count_kv(raw["num_key_value_heads"])
    writer.add_rope_freq_base(raw["rope_theta"])
    writer.add_layer_norm_rms_eps(raw["rms_norm_eps"])
    if "head_dim" in raw:
        writer.add_key_length(raw["head_dim"])
    for key, value in (metadata or {}).items():
        writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    (vocabulary or byte_level)(writer)
    for name, tensor in tensors.items():
        value = tensor.numpy()
        heads = {"q_proj": raw["num_attention_heads"], "k_proj": raw["num_key_value_heads"]}
        if arch == "llama" and (count := heads.get(name.split(".")[-2])):
            value = interleave(value, count)
        kind = gguf.GGMLQuantizationType.Q8_0 if name in quantised else gguf.GGMLQuantizationType.F32
        writer.add_tensor(gguf_name(name), gguf.quants.quantize(np.ascontiguousarray(value), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def byte_level(writer: gguf.GGUFWriter, *, pre: str = "smollm", tokens: Sequence[str] = TOKENS) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if token.startswith("<") else 1 for token in tokens])
    writer.add_token_merges(["Ġ a"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{{ messages[0].content }}")


SENTENCEPIECE = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abc", "▁a", "ab", "▁ab"]


def sentencepiece(writer: gguf.GGUFWriter) -> None:
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(SENTENCEPIECE)
    writer.add_token_scores([0.0] * 259 + [-5.0, -6.0, -7.0, -8.0, -1.0, -2.0, -0.5])
    writer.add_token_types([2, CONTROL, CONTROL] + [6] * 256 + [1] * 7)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)


def run(folder: Path, **options: Any) -> Tensor:
    with torch.inference_mode():
        return logits(load(folder, **options).network, IDS, causal(len(IDS)))


@pytest.mark.parametrize("tied", [False, True])
def test_llama_equals_the_model_that_was_written(tmp_path: Path, tied: bool) -> None:
    raw = {**LLAMA, "tie_word_embeddings": tied}
    tensors = random_tensors(raw)
    path = write_gguf(tmp_path / "m.gguf", raw, tensors)
    expected = run(write_checkpoint(tmp_path / "original", raw, tensors))
    assert torch.equal(run(path), expected)
    assert load(path).config == load(tmp_path / "original").config


def test_llama_tensors_equal_transformers_own_reading(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    path = write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA))
    sizes = {key: value for key, value in LLAMA.items() if key != "architectures"}
    like = LlamaForCausalLM(LlamaConfig(**sizes))  # only tells the reader which names to use
    theirs = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=like)["tensors"]
    ours = Checkpoint(converted(path))
    assert theirs.keys() == ours.entries.keys()
    for name, tensor in theirs.items():
        assert torch.equal(torch.as_tensor(tensor), ours.tensor(name)), name


@pytest.mark.parametrize(
    ("arch", "architecture", "extra"),
    [("qwen2", "Qwen2ForCausalLM", {}), ("qwen3", "Qwen3ForCausalLM", {"head_dim": 12})],
)
def test_qwen_with_biases_or_head_norms(tmp_path: Path, arch: str, architecture: str, extra: dict[str, Any]) -> None:
    raw = {**LLAMA, "architectures": [architecture], "model_type": arch, **extra}
    tensors = random_tensors(raw)
    path = write_gguf(tmp_path / "m.gguf", raw, tensors, arch=arch)
    assert torch.equal(run(path), run(write_checkpoint(tmp_path / "original", raw, tensors)))


def test_quantised_tensors_are_dequantised(tmp_path: Path) -> None:
    tensors = random_tensors(LLAMA)
    quantised = tuple(name for name, tensor in tensors.items() if tensor.dim() == 2 and tensor.shape[1] % 32 == 0)
    assert len(quantised) > 5
    path = write_gguf(tmp_path / "m.gguf", LLAMA, tensors, quantised=quantised)
    exact = run(write_checkpoint(tmp_path / "original", LLAMA, tensors))
    assert 0 < (run(path) - exact).norm() / exact.norm() < 0.05


def test_linear_rope_scaling_is_read(tmp_path: Path) -> None:
    metadata = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    config = load(write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA), metadata=metadata)).config
    assert config.rope_scaling is not None
    assert (config.rope_scaling.kind, config.rope_scaling.factor) == ("linear", 4.0)


def test_the_tokenizer_comes_along(tmp_path: Path) -> None:
    model = load(write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA)))
    assert model.tokenizer is not None
    assert (model.stop_ids, model.tokenizer.eos) == ((2,), "<|im_end|>")
    assert model.tokenizer.decode(model.tokenizer.encode_text("a cab 42")) == "a cab 42"
    assert model.tokenizer.encode_chat([{"role": "user", "content": "abc"}]) == [4, 5, 6]


def test_blanks_before_digits_are_cut_as_smollm_cuts_them(tmp_path: Path) -> None:
    """transformers reads this vocabulary as GPT-2's, which joins one blank with the digits behind it."""
    folder = converted(write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA)))
    backend = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    assert [step["type"] for step in backend["pre_tokenizer"]["pretokenizers"]] == ["Digits", "ByteLevel"]


def test_the_conversion_is_kept_and_follows_the_file(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA, seed=1))
    first = converted(path)
    stamp = (first / "model.safetensors").stat().st_mtime_ns
    assert (converted(path), (first / "model.safetensors").stat().st_mtime_ns) == (first, stamp)
    before = run(path)
    write_gguf(path, {**LLAMA, "rope_theta": 5.0}, random_tensors(LLAMA, seed=2))
    assert not torch.equal(run(path), before)
    assert sorted(entry.name for entry in first.parent.iterdir()) == sorted({first.name, converted(path).name})


def test_a_folder_with_one_gguf_file(tmp_path: Path) -> None:
    write_gguf(tmp_path / "sub" / "m.gguf", LLAMA, random_tensors(LLAMA))
    assert load(tmp_path / "sub").spec.name == "llama"


def test_an_unwritable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA))
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("ANYORDER_HOME", str(tmp_path / "file"))
    with pytest.raises(ModelError, match=r"cannot write the model cache .*; set ANYORDER_HOME to a writable folder"):
        load(path)


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("ANYORDER_HOME", str(tmp_path))
    with pytest.raises(ModelError, match=r"No space left on device\); set ANYORDER_HOME to a folder with more room"):
        cached("m", write)
    assert not any((tmp_path / "converted").iterdir())


def test_a_failed_conversion_leaves_nothing_behind(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {**LLAMA, "num_attention_heads": 4}, random_tensors(LLAMA), arch="mpt")
    with pytest.raises(ModelError, match="GGUF architecture 'mpt' is not supported; supported: llama, qwen2, qwen3"):
        load(path)
    assert not list((tmp_path / "home" / "converted").iterdir())


def test_a_vocabulary_at_odds_with_itself(tmp_path: Path) -> None:
    tokens = [token for token in TOKENS if token != "Ġa"] + ["Ġb"]
    vocabulary = partial(byte_level, tokens=tokens)
    path = write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA), vocabulary=vocabulary)
    with pytest.raises(ModelError, match=r"the tokenizer inside is damaged: .*out of vocabulary"):
        load(path)


def test_an_unknown_splitting_rule_is_not_guessed(tmp_path: Path) -> None:
    vocabulary = partial(byte_level, pre="falcon")
    path = write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA), vocabulary=vocabulary)
    with pytest.raises(ModelError, match="tokenizer 'gpt2' with rule 'falcon' is not supported; known: llama; gpt2"):
        load(path)


@pytest.mark.parametrize(
    ("pre", "text", "pieces"),
    [
        ("gpt-2", "a  42", ["a", "Ġ", "Ġ42"]),
        ("smollm", "a  42", ["a", "ĠĠ", "4", "2"]),
        ("qwen2", "a  1234", ["a", "Ġ", "Ġ", "1", "2", "3", "4"]),
        ("llama-bpe", "a  1234", ["a", "Ġ", "Ġ", "123", "4"]),
    ],
)
def test_splitting_rules(pre: str, text: str, pieces: list[str]) -> None:
    splitter = PreTokenizers(RULES[pre].splits())
    assert [piece for piece, _ in splitter.pre_tokenize_str(text)] == pieces


def test_sentencepiece_goes_through_transformers(tmp_path: Path) -> None:
    raw = {**LLAMA, "vocab_size": len(SENTENCEPIECE)}
    model = load(write_gguf(tmp_path / "m.gguf", raw, random_tensors(raw), vocabulary=sentencepiece))
    assert model.tokenizer is not None
    ids = model.tokenizer.encode_text("ab é", bos=True)
    assert (ids[:2], model.tokenizer.decode(ids)) == ([1, SENTENCEPIECE.index("▁ab")], "ab é")
    assert 2 not in model.tokenizer.encode_text("</s>")


@pytest.mark.parametrize("keep", [0, 3, 100, 2000])
def test_a_truncated_file(tmp_path: Path, keep: int) -> None:
    path = write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(WeightsError, match=r"m\.gguf is no complete GGUF file"):
        load(path)


def test_experts_are_refused(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", LLAMA, random_tensors(LLAMA), metadata={"llama.expert_count": 8})
    with pytest.raises(ModelError, match="'llama' with experts is not supported"):
        load(path)
