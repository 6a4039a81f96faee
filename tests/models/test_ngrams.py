"""A model brings its draft table along: found beside its weights, checked, and used by nobody else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.models.tiny_models import LLAMA, write_checkpoint

import anyorder
from anyorder.errors import DataError
from anyorder.models.load import load
from anyorder.models.load.safetensors import Checkpoint
from anyorder.ngrams import FILE, NgramTable
from anyorder.ngrams.weights import Weights

SURE = Weights(np.full(Weights.SHAPE, 3, np.float32))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path)


def written(folder: Path, ids: list[int]) -> Path:
    NgramTable.of([((), ids)], SURE).save(folder / FILE)
    return folder


def test_a_model_without_a_table_has_none(folder: Path) -> None:
    assert load(folder).ngrams is None


def test_a_table_makes_drafts_of_what_it_holds(folder: Path) -> None:
    """The text stays the same; a table of the very answer saves most passes."""
    without = anyorder.generate(load(folder), [1, 2, 3], max_new_tokens=24, stop_ids=(), draft="ngram")
    model = load(written(folder, [1, 2, 3, *without.ids]))
    assert model.ngrams is not None
    drafted = anyorder.generate(model, [1, 2, 3], max_new_tokens=24, stop_ids=(), draft="ngram")
    assert drafted.ids == without.ids
    assert drafted.stats.passes < without.stats.passes
    assert drafted.stats.passes < 12


def test_a_table_is_not_taken_for_weights(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "weights.safetensors")
    names = set(Checkpoint(folder).entries)
    assert set(Checkpoint(written(folder, [1, 2])).entries) == names


def test_a_table_of_another_vocabulary_is_refused(folder: Path) -> None:
    written(folder, [1, LLAMA["vocab_size"]])
    with pytest.raises(DataError, match=r"ngrams.safetensors holds token id 40, the model knows 0 to 39"):
        load(folder)


def test_a_damaged_table_is_refused(folder: Path) -> None:
    (folder / FILE).write_bytes(b"no table")
    with pytest.raises(DataError, match="cannot be read as a draft table"):
        load(folder)
