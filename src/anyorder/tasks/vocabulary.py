"""One token per character: printable ASCII behind the three control tokens."""

from __future__ import annotations

from collections.abc import Sequence

import tokenizers
from tokenizers import AddedToken, decoders
from tokenizers.models import BPE

END, MASK, UNKNOWN = "<|endoftext|>", "<|mdm_mask|>", "<|unknown|>"
"""The first two as LLaDA's tokenizer calls them."""
END_ID, MASK_ID, UNKNOWN_ID = range(3)
CHARACTERS = "".join(map(chr, range(32, 127)))
SIZE = 3 + len(CHARACTERS)
BLOT = "\ufffd"
"""What `decode` shows for a control token."""
_IDS = {character: index for index, character in enumerate(CHARACTERS, start=3)}


def encode(text: str, length: int) -> list[int]:
    """Ids of printable ASCII, with end of text behind it up to `length`; a KeyError for any other character."""
    return [_IDS[character] for character in text] + [END_ID] * (length - len(text))


def decode(ids: Sequence[int]) -> str:
    """The characters, without the end of text behind them; a control token among them is a `BLOT`."""
    text = "".join(CHARACTERS[token - 3] if token >= 3 else "\0" if token == END_ID else BLOT for token in ids)
    return text.rstrip("\0").replace("\0", BLOT)


def build_tokenizer() -> tokenizers.Tokenizer:
    """The same vocabulary for `tokenizer.json`; characters outside of it become the unknown token."""
    control = [AddedToken(name, special=True, normalized=False) for name in (END, MASK, UNKNOWN)]
    vocabulary = {END: END_ID, MASK: MASK_ID, UNKNOWN: UNKNOWN_ID, **_IDS}
    backend = tokenizers.Tokenizer(BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens(control)
    return backend
