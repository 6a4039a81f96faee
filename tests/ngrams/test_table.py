"""A table counts what a search through the text counts, and its file brings it back or is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from tests.ngrams.texts import FEW, FLAT, TEXTS, Text, counted

from anyorder.errors import DataError
from anyorder.ngrams.table import FORMAT, SAMPLE, NgramTable
from anyorder.ngrams.weights import LARGEST, LEVELS, Weights


@given(TEXTS, st.lists(FEW, max_size=LEVELS + 2))
def test_followers_are_those_of_a_search(texts: list[Text], context: list[int]) -> None:
    table = NgramTable.of(texts, FLAT)
    ends = [context[-level:] for level in range(1, min(LEVELS, len(context)) + 1)]
    expected = [counts for end in ends if (counts := counted(texts, end))]
    assert [table.followers(*run) for run in table.matches(context)] == expected


def test_a_match_does_not_reach_over_the_start_of_a_text() -> None:
    table = NgramTable.of([((), (1, 2)), ((), (3, 4))], FLAT)
    assert table.matches([2]) == []  # 3 stands behind 2 in memory only
    assert len(table.matches([1, 3])) == 1


def test_what_stands_before_is_context_and_not_predicted() -> None:
    table = NgramTable.of([((1, 2, 3), (4, 5))], FLAT)
    assert len(table) == 2
    assert [table.followers(*run) for run in table.matches([2, 3])] == [{4: 1}, {4: 1}]
    assert table.matches([1]) == []  # its follower belongs to what stands before


def test_a_frequent_context_is_sampled_evenly() -> None:
    ids = [0, 1] * 1000 + [0, 2] * 1000
    table = NgramTable.of([((), ids)], FLAT)
    (run, *_) = table.matches([0])
    counts = table.followers(*run)
    assert sum(counts.values()) == SAMPLE
    assert abs(counts[1] - counts[2]) <= 2


@pytest.mark.parametrize("highest", [10, 65534, 65535, 200_000])
def test_every_vocabulary_fits(highest: int) -> None:
    table = NgramTable.of([((), (highest, 0, highest, 0))], FLAT)
    assert table.followers(*table.matches([highest])[0]) == {0: 2}
    table.check_vocabulary(highest + 1, "table")
    with pytest.raises(DataError, match=f"table holds token id {highest}, the model knows 0 to {highest - 1}"):
        table.check_vocabulary(highest, "table")


@given(texts=TEXTS)
def test_a_file_brings_it_back(texts: list[Text], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("table") / "ngrams.safetensors"
    weights = Weights(np.linspace(-LARGEST, LARGEST, FLAT.numbers.size, dtype=np.float32).reshape(Weights.SHAPE))
    table = NgramTable.of(texts, weights)
    table.save(path)
    again = NgramTable.load(path)
    assert all(np.array_equal(again.arrays[name], array) for name, array in table.arrays.items())
    assert np.array_equal(again.weights.numbers, weights.numbers)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "ngrams.safetensors"
    NgramTable.of([((1,), (2, 3, 4))], FLAT).save(path)
    return path


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"weights": None}, "it holds order, tokens in place of order, tokens, weights"),
        ({"more": np.zeros(2, np.int32)}, "it holds more, order, tokens, weights in place of"),
        ({"tokens": np.zeros(12, np.int64)}, r"its arrays are int64\[12\]"),
        ({"tokens": np.zeros((3, 4), np.int32)}, r"its arrays are int32\[3, 4\]"),
        ({"order": np.zeros(3, np.uint16)}, r"and uint16\[3\]"),
        ({"order": np.array([0, 9, 10], np.int32)}, "its places do not lie in its text of 13 tokens"),
        ({"order": np.array([9, 10, 13], np.int32)}, "its places do not lie in its text of 13 tokens"),
        ({"weights": np.zeros((2, LEVELS, 2), np.float32)}, r"its weights are float32\[2, 8, 2\]"),
        ({"weights": np.full(Weights.SHAPE, np.nan, np.float32)}, "or not from -30 to 30"),
        ({"weights": np.full(Weights.SHAPE, 31, np.float32)}, "or not from -30 to 30"),
    ],
)
def test_a_file_of_another_making_is_refused(good: Path, changes: dict[str, Any], text: str) -> None:
    arrays = {name: array for name, array in (load_file(good) | changes).items() if array is not None}
    save_file(arrays, good, {"format": FORMAT})
    with pytest.raises(DataError, match=text):
        NgramTable.load(good)


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:5], lambda b: b"", lambda b: b"{}" * 50])
def test_a_damaged_file_is_refused(good: Path, damage: Any) -> None:
    good.write_bytes(damage(good.read_bytes()))
    with pytest.raises(DataError, match=r"ngrams.safetensors cannot be read as a draft table .*; make it anew"):
        NgramTable.load(good)


def test_another_format_and_a_missing_file_are_refused(good: Path) -> None:
    save_file(load_file(good), good, {"format": "another"})
    with pytest.raises(DataError, match=f"its format is 'another', not '{FORMAT}'"):
        NgramTable.load(good)
    with pytest.raises(DataError, match="cannot be read as a draft table"):
        NgramTable.load(good.with_name("missing"))


def test_the_kept_answers_are_those_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are kept between calls: a second text must not get those of the first."""
    texts: list[Sequence[Text]] = [[((), (1, 2))], [((), (1, 3))]]
    found = [NgramTable.of(text, FLAT) for text in texts]
    assert [table.followers(*table.matches([1])[0]) for table in found] == [{2: 1}, {3: 1}]
    assert [table.followers(*table.matches([1])[0]) for table in found] == [{2: 1}, {3: 1}]
