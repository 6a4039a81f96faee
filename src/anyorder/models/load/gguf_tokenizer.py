"""The tokenizer inside a GGUF file, written as tokenizer.json, tokenizer_config.json and chat_template.jinja."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from anyorder.errors import ModelError
from anyorder.models.tokenizer_files import QWEN2_SPLIT

if TYPE_CHECKING:
    from gguf import GGUFReader

CONTROL, USER_DEFINED = 3, 4
"""Values of `tokenizer.ggml.token_type` that mark added tokens."""
NAMED = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a byte-level vocabulary does to a text before it merges."""

    digits: bool = False
    """Cut every digit off first."""
    pattern: str | None = None
    """Where to cut; None: as GPT-2 does."""
    nfc: bool = False
    whole_words: bool = False
    """A piece that is a token as it stands is not merged."""

    def splits(self) -> list[Any]:
        """Steps for a `tokenizers` pre-tokenizer."""
        first: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if self.digits else []
        if self.pattern is not None:
            first.append(pre_tokenizers.Split(Regex(self.pattern), behavior="isolated"))
        return [*first, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=self.pattern is None)]


LLAMA3 = Rule(pattern=QWEN2_SPLIT.replace(r"|\p{N}|", r"|\p{N}{1,3}|"), whole_words=True)
QWEN2 = Rule(pattern=QWEN2_SPLIT, nfc=True)
RULES = {
    "gpt-2": Rule(),
    "smollm": Rule(digits=True),
    "qwen2": QWEN2,
    "deepseek-r1-qwen": QWEN2,
    "llama3": LLAMA3,
    "llama-v3": LLAMA3,
    "llama-bpe": LLAMA3,
}
"""`tokenizer.ggml.pre` -> rule. Source: llama.cpp's table of pre-tokenizers and the published tokenizer.json files."""


def write_tokenizer(path: Path, reader: GGUFReader, folder: Path) -> None:
    """Write the tokenizer of an opened GGUF file into a folder; nothing if the file has no vocabulary.

    Byte-level vocabularies are built here, because transformers ignores their splitting rule and takes many seconds;
    SentencePiece ones go through transformers.

    Raises:
        ModelError: the vocabulary is damaged, or of a kind or rule that is not known.
    """
    kind, rule = _field(reader, "model"), _field(reader, "pre")
    if kind is None:
        return
    if kind == "gpt2" and rule in RULES:
        _write_bpe(reader, RULES[rule], folder)
    elif kind == "llama":
        _write_through_transformers(path, folder)
    else:
        known = f"llama; gpt2 with {', '.join(RULES)}"
        raise ModelError(f"{path}: tokenizer {kind!r} with rule {rule!r} is not supported; known: {known}")


def _write_bpe(reader: GGUFReader, rule: Rule, folder: Path) -> None:
    tokens, types = _field(reader, "tokens"), _field(reader, "token_type")
    backend = _bpe(tokens, _field(reader, "merges"), rule)
    backend.add_tokens(
        [
            AddedToken(token, special=kind == CONTROL, normalized=False)
            for token, kind in zip(tokens, types, strict=True)
            if kind in (CONTROL, USER_DEFINED)
        ]
    )
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(_config(reader, tokens)), encoding="utf-8")
    if template := reader.fields.get("tokenizer.chat_template"):
        (folder / "chat_template.jinja").write_text(template.contents(), encoding="utf-8")


def _bpe(tokens: list[str], merges: list[str], rule: Rule) -> Tokenizer:
    vocab = {token: index for index, token in enumerate(tokens)}
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    try:
        backend = Tokenizer(BPE(vocab=vocab, merges=pairs, ignore_merges=rule.whole_words))
    except Exception as error:  # the Rust library raises bare Exception
        raise ModelError(f"GGUF file: the tokenizer inside is damaged: {error}") from None
    if rule.nfc:
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(rule.splits())
    backend.decoder = decoders.ByteLevel()
    return backend


def _config(reader: GGUFReader, tokens: list[str]) -> dict[str, Any]:
    ids = {name: _field(reader, f"{key}_token_id") for name, key in NAMED.items()}
    named = {name: tokens[index] for name, index in ids.items() if index is not None}
    return {**named, "add_bos_token": bool(_field(reader, "add_bos_token"))}


def _write_through_transformers(path: Path, folder: Path) -> None:
    from transformers import AutoTokenizer

    try:
        AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name).save_pretrained(str(folder))
    except Exception as error:  # whatever its readers and the Rust library raise
        raise ModelError(f"{path}: the tokenizer inside cannot be read: {str(error).splitlines()[0]}") from None


def _field(reader: GGUFReader, key: str) -> Any:
    found = reader.fields.get(f"tokenizer.ggml.{key}")
    return None if found is None else found.contents()
