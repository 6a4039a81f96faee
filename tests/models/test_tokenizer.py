"""Tokenizer folders as published, and the rule that user text never becomes a control token."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tests.models.tiny_models import BYTES, write_bpe

from anyorder.errors import ModelError, ParameterError, TokenizerMismatch
from anyorder.models.tokenizer import Tokenizer, read_tokenizer
from anyorder.models.tokenizer_files import TokenizerFiles

ADDED: list[dict[str, Any]] = [
    {"content": "<|endoftext|>", "special": True},
    {"content": "<|im_start|>", "special": True},
    {"content": "<|im_end|>", "special": True},
    {"content": "<|mask|>", "special": True, "lstrip": True},
    {"content": "<tool_call>", "special": False},
    {"content": "|<MASK>|", "special": True, "normalized": True},
    {"content": "    ", "special": False},
]
STRINGS = [token["content"] for token in ADDED]
CONTROL = set(range(BYTES, BYTES + 6))
BLANKS = BYTES + 6

PIECES = st.sampled_from([*STRINGS, "<", "|", ">", "|im_end", "hello", " ", "\n", "é", "ｱ", "\ue000"])
TEXTS = st.lists(PIECES | st.text(max_size=4), max_size=12).map("".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_bpe(folder, ADDED)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    found = read_tokenizer(folder)
    assert found is not None
    return found


class TestUserText:
    @given(text=TEXTS)
    def test_no_control_token_and_nothing_lost(self, tokenizer: Tokenizer, text: str) -> None:
        ids = tokenizer.encode_text(text)
        assert not CONTROL.intersection(ids)
        assert tokenizer.decode(ids, skip_special=False) == unicodedata.normalize("NFC", text)

    @given(text=TEXTS.filter(lambda text: not any(string in text for string in STRINGS[:6])))
    def test_without_control_strings_it_is_the_tokenizers_own_encoding(self, tokenizer: Tokenizer, text: str) -> None:
        assert tokenizer.encode_text(text) == tokenizer.files.backend.encode(text, add_special_tokens=False).ids

    def test_the_rule_is_needed(self, tokenizer: Tokenizer) -> None:
        """The bare backend does turn text into control tokens."""
        assert tokenizer.files.backend.encode("a<|mask|>").ids[-1] == BYTES + 3

    def test_runs_of_blanks_are_text(self, tokenizer: Tokenizer) -> None:
        assert BLANKS in tokenizer.encode_text("if x:\n    y")
        assert not tokenizer.is_control(BLANKS)

    def test_a_control_string_that_only_appears_after_normalisation(self) -> None:
        backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={c: i for i, c in enumerate("<mask>")}, merges=[]))
        backend.normalizer = tokenizers.normalizers.NFKC()
        backend.add_tokens([tokenizers.AddedToken("<mask>", normalized=True, special=True)])
        tokenizer = Tokenizer(TokenizerFiles(backend=backend))
        assert backend.encode("＜mask＞").ids == [6]
        assert tokenizer.encode_text("＜mask＞") == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize("kind", ["word", "unigram"])
    def test_a_vocabulary_that_also_holds_the_control_string(self, kind: str) -> None:
        words = ["<unk>", "<mask>", *"<mask>"]
        model = (
            tokenizers.models.WordLevel({word: index for index, word in enumerate(dict.fromkeys(words))}, "<unk>")
            if kind == "word"
            else tokenizers.models.Unigram([(word, -1.0) for word in dict.fromkeys(words)], 0)
        )
        backend = tokenizers.Tokenizer(model)
        backend.add_special_tokens(["<unk>", "<mask>"])
        tokenizer = Tokenizer(TokenizerFiles(backend=backend, named={"unk_token": "<unk>"}))
        assert 1 not in tokenizer.encode_text("<mask>")
        assert tokenizer.encode_text("ä") == [0], "the unknown token is no control token here"

    def test_a_single_character_that_is_a_control_token(self) -> None:
        backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "?": 1}, "a"))
        backend.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
        backend.add_special_tokens(["?"])
        with pytest.raises(ParameterError, match=r"contains '\?', which this tokenizer only knows as a control token"):
            Tokenizer(TokenizerFiles(backend=backend)).encode_text("a?")

    def test_empty_text(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.encode_text("") == []


class TestOpening:
    def test_none(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.encode_text("a", bos=True) == tokenizer.encode_text("a")

    def test_from_the_config(self, tmp_path: Path) -> None:
        write_bpe(tmp_path, ADDED)
        path = tmp_path / "tokenizer_config.json"
        config = {**json.loads(path.read_text("utf-8")), "bos_token": {"content": "<|im_start|>"}}
        for add in (True, False):
            path.write_text(json.dumps({**config, "add_bos_token": add}), "utf-8")
            tokenizer = read_tokenizer(tmp_path)
            assert tokenizer is not None
            assert (tokenizer.encode_text("a", bos=True)[0] == BYTES + 1) == add

    def test_from_the_post_processor(self, tokenizer: Tokenizer) -> None:
        backend = tokenizers.Tokenizer.from_str(tokenizer.files.backend.to_str())
        backend.post_processor = tokenizers.processors.TemplateProcessing(
            single="<|im_start|> $A <|im_end|>", special_tokens=[("<|im_start|>", BYTES + 1), ("<|im_end|>", BYTES + 2)]
        )
        other = Tokenizer(TokenizerFiles(backend=backend))
        assert other.encode_text("a", bos=True) == [BYTES + 1, *other.encode_text("a")], "no eos behind a prompt"
        assert other.encode_text("<|mask|>", bos=True)[1:] == tokenizer.encode_text("<|mask|>")


class TestFiles:
    def test_vocabulary_files_equal_transformers_qwen2(self, folder: Path) -> None:
        from transformers import Qwen2Tokenizer

        ours = read_tokenizer(folder)
        assert ours is not None
        merges: Any = [("h", "e"), ("l", "l")]
        theirs = Qwen2Tokenizer(vocab=json.loads((folder / "vocab.json").read_text("utf-8")), merges=merges)
        for text in ("hello  world\n\n 123,45 it's", "  x\t\r\n\u0065\u0301 日本語!?", "I'LL   "):
            assert ours.encode_text(text) == theirs(text)["input_ids"]

    def test_custom_classes_are_not_run(self, folder: Path, tokenizer: Tokenizer) -> None:
        assert "auto_map" in json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
        assert [tokenizer.token_id(string) for string in STRINGS] == list(range(BYTES, BYTES + 7))
        assert len(tokenizer) == BYTES + 7
        assert (tokenizer.token(BYTES + 3), tokenizer.token(BYTES + 99)) == ("<|mask|>", None)
        assert tokenizer.token_id("<none>") is None

    def test_added_tokens_json_and_tokenizer_json(self, tmp_path: Path, tokenizer: Tokenizer) -> None:
        tokenizer.files.backend.save(str(tmp_path / "tokenizer.json"))
        (tmp_path / "added_tokens.json").write_text(json.dumps({"<|mask|>": BYTES + 3, "<|new|>": BYTES + 7}), "utf-8")
        found = read_tokenizer(tmp_path)
        assert found is not None
        assert (found.token_id("<|new|>"), found.is_control(BYTES + 7)) == (BYTES + 7, True)

    def test_an_added_token_with_an_impossible_id(self, tmp_path: Path) -> None:
        write_bpe(tmp_path, ADDED)
        (tmp_path / "added_tokens.json").write_text(json.dumps({"<|new|>": 5000}), "utf-8")
        with pytest.raises(TokenizerMismatch, match=rf"'<\|new\|>' should have id 5000 .* gives it {BYTES + 7}"):
            read_tokenizer(tmp_path)

    def test_none(self, tmp_path: Path) -> None:
        assert read_tokenizer(tmp_path) is None

    def test_sentencepiece_only(self, tmp_path: Path) -> None:
        (tmp_path / "tokenizer.model").write_bytes(b"")
        with pytest.raises(ModelError, match=r"only a SentencePiece tokenizer\.model"):
            read_tokenizer(tmp_path)

    @pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "vocab.json"])
    def test_damaged_files(self, tmp_path: Path, name: str) -> None:
        write_bpe(tmp_path)
        (tmp_path / name).write_text("{", "utf-8")
        with pytest.raises(ModelError, match=r"damaged|is no JSON"):
            read_tokenizer(tmp_path)

    def test_rows_behind_the_vocabulary_decode_to_nothing(self, tokenizer: Tokenizer) -> None:
        assert tokenizer.decode([*tokenizer.encode_text("ab"), BYTES + 50]) == "ab"
        assert tokenizer.decode([BYTES + 2]) == ""
        assert tokenizer.decode([BYTES + 2], skip_special=False) == "<|im_end|>"
