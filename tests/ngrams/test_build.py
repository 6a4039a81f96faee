"""From conversations to a table: every different one counts once, and a bad line is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyorder.errors import DataError
from anyorder.ngrams.build import build_table, read_texts
from anyorder.ngrams.weights import PRIOR


def written(path: Path, records: list[Any]) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n\n", "utf-8")
    return path


def test_conversations_of_several_files_count_once(tmp_path: Path) -> None:
    first = {"prompt_ids": [1, 2], "answer_ids": [3, 4], "prompt": "text beside the ids"}
    second = {"prompt_ids": [1, 2], "answer_ids": [5]}
    files = [written(tmp_path / "a.jsonl", [first, second]), written(tmp_path / "b.jsonl", [first])]
    assert read_texts(files) == [((1, 2), (3, 4)), ((1, 2), (5,))]


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"answer_ids": [1]}, "line 2: 'prompt_ids' must be a list of token ids"),
        ({"prompt_ids": [1], "answer_ids": "1"}, "line 2: 'answer_ids' must be a list of token ids"),
        ({"prompt_ids": [1], "answer_ids": [-1]}, "line 2: 'answer_ids' must be"),
        ({"prompt_ids": [True], "answer_ids": []}, "line 2: 'prompt_ids' must be"),
        ([1], "line 2: 'prompt_ids' must be"),
    ],
)
def test_a_line_that_is_no_conversation_is_named(tmp_path: Path, record: Any, text: str) -> None:
    path = written(tmp_path / "text.jsonl", [{"prompt_ids": [], "answer_ids": []}, record])
    with pytest.raises(DataError, match=f"text.jsonl, {text}"):
        read_texts([path])


def test_what_is_no_json_and_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.jsonl"
    path.write_text("{", "utf-8")
    with pytest.raises(DataError, match=r"text.jsonl, line 1: no JSON"):
        read_texts([path])
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="is no UTF-8 text"):
        read_texts([path])
    path.write_text("\n", "utf-8")
    with pytest.raises(DataError, match="no conversation to count in"):
        read_texts([path])
    with pytest.raises(DataError, match=r"missing.jsonl cannot be read"):
        read_texts([tmp_path / "missing.jsonl"])


def test_the_table_holds_all_texts_and_weights_that_were_fitted() -> None:
    texts = [((1,), (2, 3, n % 5)) for n in range(40)]
    table = build_table(texts)
    assert len(table) == 120
    assert not np.array_equal(table.weights.numbers, PRIOR.numbers)
    assert table.weights.share(1, 1, 30, 1) > PRIOR.share(1, 1, 30, 1)  # 1 2 -> 3 without exception


def test_one_conversation_is_enough() -> None:
    assert len(build_table([((1,), (2, 3))])) == 2
