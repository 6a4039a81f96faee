"""The tokenizer inside a GGUF file, written as tokenizer.json, tokenizer_config.json and chat_template.jinja."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from anyorder.errors import ModelError
from anyorder.models.tokenizer_files import QWEN2_SPLIT

if TYPE_CHECKING:
    from gguf import GGUFReader

CONTROL, USER_DEFINED = 3, 4
"""Values of `tokenizer.ggml.token_type` that mark added tokens."""
NAMED = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def write_tokenizer(path: Path, reader: GGUFReader, folder: Path) -> None:
    """Byte-level BPE with a known splitting rule is built here (transformers ignores the rule and takes tens of
    seconds); every other kind goes through transformers.
    """
    kind, rule = _field(reader, "model"), _field(reader, "pre")
    if kind is None:
        return  # a file without vocabulary: token ids only
    if kind == "gpt2" and rule in SPLITS:
        _write_bpe(reader, SPLITS[rule], folder)
    else:
        _write_through_transformers(path, folder)


def _write_bpe(reader: GGUFReader, split: list[Any], folder: Path) -> None:
    tokens, types = _field(reader, "tokens"), _field(reader, "token_type")
    merges = [tuple(merge.split(" ", 1)) for merge in _field(reader, "merges")]
    try:
        backend = Tokenizer(BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    except Exception as error:  # the Rust library raises bare Exception
        raise ModelError(f"GGUF file: the tokenizer inside is damaged: {error}") from None
    backend.pre_tokenizer = pre_tokenizers.Sequence(split)
    backend.decoder = decoders.ByteLevel()
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


def _config(reader: GGUFReader, tokens: list[str]) -> dict[str, Any]:
    ids = {name: _field(reader, f"{key}_token_id") for name, key in NAMED.items()}
    named = {name: tokens[index] for name, index in ids.items() if index is not None}
    return {**named, "add_bos_token": bool(_field(reader, "add_bos_token"))}


def _write_through_transformers(path: Path, folder: Path) -> None:
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name).save_pretrained(str(folder))


def _field(reader: GGUFReader, key: str) -> Any:
    found = reader.fields.get(f"tokenizer.ggml.{key}")
    return None if found is None else found.contents()


def _bytes(pattern: str) -> list[Any]:
    return [
        pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]


SPLITS = {
    "smollm": [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ],
    "gpt-2": [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)],
    "qwen2": _bytes(QWEN2_SPLIT),
}
"""`tokenizer.ggml.pre` -> how text is cut before the merges. Source: llama.cpp's table of pre-tokenizers."""
