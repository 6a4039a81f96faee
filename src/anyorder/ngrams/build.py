"""A draft table from conversations: JSON lines with `prompt_ids` and `answer_ids`, as self-distillation writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from anyorder.errors import DataError
from anyorder.ngrams.fit import fit
from anyorder.ngrams.table import NgramTable
from anyorder.ngrams.weights import PRIOR

HELD_OUT = 160  # conversations that the weights are fitted on: 25,000 tokens; more change the third digit

Text = tuple[Sequence[int], Sequence[int]]
"""What stands before, and what is to be predicted."""


def read_texts(paths: Sequence[Path]) -> list[Text]:
    """The different conversations of some files.

    Raises:
        DataError: a line is no such conversation; the message names it. Or there is none at all.
    """
    texts = dict.fromkeys(text for path in paths for text in _lines(path))
    if not texts:
        raise DataError(f"{', '.join(map(str, paths))}: no conversation to count in; give text with at least one")
    return list(texts)


def _lines(path: Path) -> Iterator[Text]:
    try:
        content = path.read_text("utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); give a JSONL file") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is no UTF-8 text; give a JSONL file") from None
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                record = json.loads(line)
            except ValueError as error:
                raise DataError(f"{path}, line {number}: no JSON ({error})") from None
            yield _ids(record, "prompt_ids", path, number), _ids(record, "answer_ids", path, number)


def _ids(record: Any, name: str, path: Path, number: int) -> tuple[int, ...]:
    ids = record.get(name) if isinstance(record, dict) else None
    if not isinstance(ids, list) or not all(type(token) is int and 0 <= token < 2**31 - 1 for token in ids):
        raise DataError(f"{path}, line {number}: {name!r} must be a list of token ids")
    return tuple(ids)


def build_table(texts: Sequence[Text]) -> NgramTable:
    """A table of all texts, with weights fitted on some of them against a table of the others."""
    step = max(2, len(texts) // HELD_OUT)
    held_out = texts[::step]
    rest = [text for number, text in enumerate(texts) if number % step]
    return NgramTable.of(texts, fit(NgramTable.of(rest, PRIOR), held_out, PRIOR))
