"""One token per character: to ids and back, in the same way by our functions and by the tokenizer of the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyorder.models.load.default import EMBEDDED
from anyorder.models.tokenizer import read_tokenizer
from anyorder.tasks import vocabulary
from anyorder.tasks.vocabulary import BLOT, CHARACTERS, END_ID, MASK_ID, UNKNOWN_ID, decode, encode


def test_every_character_comes_back() -> None:
    assert decode(encode(CHARACTERS, 200)) == CHARACTERS
    assert encode("ab", 4)[2:] == [END_ID, END_ID]
    assert len(set(encode(CHARACTERS, 0))) == len(CHARACTERS) == vocabulary.SIZE - 3


def test_a_control_token_inside_a_text_is_seen() -> None:
    """An end of text with characters behind it must not make a document right."""
    a, b = encode("ab", 0)
    assert decode([a, END_ID, b, END_ID]) == f"a{BLOT}b"
    assert decode([a, MASK_ID, UNKNOWN_ID]) == f"a{BLOT}{BLOT}"


def test_other_characters_are_refused() -> None:
    with pytest.raises(KeyError):
        encode("é", 4)


def test_the_shipped_tokenizer_is_the_same_vocabulary(tmp_path: Path) -> None:
    vocabulary.build_tokenizer().save(str(tmp_path / "tokenizer.json"))
    assert (EMBEDDED / "tasks" / "tokenizer.json").read_text("utf-8") == (tmp_path / "tokenizer.json").read_text(
        "utf-8"
    )
    tokenizer = read_tokenizer(EMBEDDED / "tasks")
    assert tokenizer is not None
    assert len(tokenizer) == vocabulary.SIZE
    assert tokenizer.encode_text(CHARACTERS, bos=True) == encode(CHARACTERS, 0)
    assert tokenizer.decode(encode(CHARACTERS, 0)) == CHARACTERS


def test_what_a_user_writes_is_never_a_control_token() -> None:
    tokenizer = read_tokenizer(EMBEDDED / "tasks")
    assert tokenizer is not None
    assert tokenizer.encode_text(vocabulary.MASK) == encode(vocabulary.MASK, 0)
    assert tokenizer.encode_text("né") == [*encode("n", 0), UNKNOWN_ID]
