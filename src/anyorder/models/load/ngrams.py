"""The draft table that a model brings along: what it writes itself, counted."""

from __future__ import annotations

from pathlib import Path

from anyorder.models.load.default import EMBEDDED_DEFAULT
from anyorder.models.load.source import DEFAULT
from anyorder.ngrams import FILE, NgramTable


def read_ngrams(source: str | Path, folders: list[Path], vocab_size: int) -> NgramTable | None:
    """The table beside a model's files; None if there is none.

    Args:
        source: as given to `load`.
        folders: of the checkpoint and of its adapter.
    Raises:
        DataError: the file is damaged, or belongs to a model with a larger vocabulary.
    """
    if source == DEFAULT:
        folders = [EMBEDDED_DEFAULT, *folders]
    path = next((folder / FILE for folder in folders if (folder / FILE).is_file()), None)
    if path is None:
        return None
    table = NgramTable.load(path)
    table.check_vocabulary(vocab_size, path)
    return table
