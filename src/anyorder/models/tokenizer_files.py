"""A tokenizer folder without its code: tokenizer.json, or vocab.json and merges.txt, and the tokens added to them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from anyorder.errors import ModelError, TokenizerMismatch

QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Where Qwen2, Qwen2.5, Qwen3 and what descends from them cut a text before merging."""

NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclass(frozen=True, kw_only=True)
class TokenizerFiles:
    """What a folder says about its tokenizer."""

    backend: Tokenizer
    named: dict[str, str] = field(default_factory=dict[str, str])
    """`bos_token`, `eos_token`, ... -> string."""
    chat_template: str | None = None
    add_bos_token: bool | None = None
    """None: as the backend's post-processor does."""


def read_files(folder: Path) -> TokenizerFiles | None:
    """The tokenizer of a checkpoint folder; None when it has none.

    The class named in tokenizer_config.json is not looked at: Dream, SDAR and Fast-dLLM v2 name their own, which all
    are Qwen2's byte-level BPE.

    Raises:
        ModelError: a file is damaged, or there is a SentencePiece model only.
        TokenizerMismatch: an added token would get another id than its file says.
    """
    config = _json(folder / "tokenizer_config.json")
    backend = _backend(folder)
    if backend is None:
        return None
    _add_tokens(backend, _added(folder, config), folder)
    return TokenizerFiles(
        backend=backend,
        named=_named({**_json(folder / "special_tokens_map.json"), **config}),
        chat_template=_template(folder, config),
        add_bos_token=config.get("add_bos_token"),
    )


def _backend(folder: Path) -> Tokenizer | None:
    whole, vocab, merges = folder / "tokenizer.json", folder / "vocab.json", folder / "merges.txt"
    try:
        if whole.exists():
            return Tokenizer.from_file(str(whole))
        if vocab.exists() and merges.exists():
            return qwen2_backend(vocab, merges)
    except Exception as error:  # the Rust library raises bare Exception
        raise ModelError(f"{folder}: the tokenizer files are damaged: {error}") from None
    if (folder / "tokenizer.model").exists():
        raise ModelError(f"{folder} has only a SentencePiece tokenizer.model; add the tokenizer.json of the checkpoint")
    return None


def qwen2_backend(vocab: Path, merges: Path) -> Tokenizer:
    """Byte-level BPE as Qwen2 builds it from its two files. Source: transformers' Qwen2Tokenizer."""
    backend = Tokenizer(BPE.from_file(str(vocab), str(merges)))
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    return backend


def _added(folder: Path, config: dict[str, Any]) -> dict[int, AddedToken]:
    """Added tokens that the folder names outside tokenizer.json, by id."""
    found = {index: AddedToken(token, special=True) for token, index in _json(folder / "added_tokens.json").items()}
    for index, fields in (config.get("added_tokens_decoder") or {}).items():
        known = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
        found[int(index)] = AddedToken(**{key: fields[key] for key in known if key in fields})
    return dict(sorted(found.items()))


def _add_tokens(backend: Tokenizer, added: dict[int, AddedToken], folder: Path) -> None:
    there = backend.get_added_tokens_decoder()
    for index, token in added.items():
        if index in there and there[index].content == token.content:
            continue
        backend.add_tokens([token])
        if backend.token_to_id(token.content) != index:
            raise TokenizerMismatch(
                f"{folder}: added token {token.content!r} should have id {index} "
                f"but the vocabulary gives it {backend.token_to_id(token.content)}"
            )


def _named(config: dict[str, Any]) -> dict[str, str]:
    strings = {name: _string(config.get(name)) for name in NAMED}
    return {name: string for name, string in strings.items() if string is not None}


def _string(token: object) -> str | None:
    if isinstance(token, dict):
        return token.get("content")
    return token if isinstance(token, str) else None


def _template(folder: Path, config: dict[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.exists():
        return path.read_text(encoding="utf-8")
    template = config.get("chat_template") or _json(folder / "chat_template.json").get("chat_template")
    if isinstance(template, list):  # several named templates
        return next((entry["template"] for entry in template if entry.get("name") == "default"), None)
    return template


def _json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is no JSON: {error}") from None
