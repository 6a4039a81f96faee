"""Rows of the tasks: whole documents, tags that are never masked, and every row a function of its number."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import torch

from anyorder.errors import DataError, ParameterError
from anyorder.models.load.default import EMBEDDED
from anyorder.models.tokenizer import read_tokenizer
from anyorder.tasks.catalog import TASKS
from anyorder.tasks.task import Task
from anyorder.tasks.vocabulary import END_ID, decode
from anyorder.training.batch import PADDING, Batch
from anyorder.training.data.encode import Vocabulary
from anyorder.training.data.prepare import prepare
from anyorder.training.data.spec import TasksData
from anyorder.training.data.tasks import TaskRows, check_vocabulary

SHARES = {"addition": 2.0, "cities": 1.0, "records": 1.0, "sudoku": 1.0}
LENGTH = 64


def rows(alone: float = 0.25, seed: int = 0) -> TaskRows:
    return TaskRows(SHARES, alone=alone, asked=0.0, length=LENGTH, seed=seed)


def documents(batch: Batch) -> list[list[list[int]]]:
    """Token ids of the documents of every row."""
    return [
        [ids[numbers == number].tolist() for number in range(int(numbers.max()) + 1)]
        for ids, numbers in zip(batch.ids, batch.documents, strict=True)
    ]


def test_every_document_is_right_and_every_row_of_one_task() -> None:
    for row in documents(rows().batch(0, 200)):
        texts = [decode(document) for document in row]
        (task,) = {task.name for task in TASKS.values() if texts[0].startswith(task.tag)}
        assert all(TASKS[task].is_right(text) for text in texts)


def test_rows_hold_as_many_documents_as_fit_or_one() -> None:
    for alone, counts in ((0.25, {1, 6}), (0.0, {6}), (1.0, {1})):
        batch = TaskRows({"addition": 1.0}, alone=alone, asked=0.0, length=LENGTH).batch(0, 100)
        assert {len(row) for row in documents(batch)} == counts
    sizes = {
        task: len(documents(TaskRows({task: 1.0}, alone=0.0, asked=0.0, length=LENGTH).batch(0, 1))[0])
        for task in TASKS
    }
    assert sizes == {"addition": 6, "cities": 1, "records": 2, "sudoku": 3}


def test_a_document_alone_ends_with_itself_or_with_end_of_text_up_to_any_column() -> None:
    batch = TaskRows({"cities": 1.0}, alone=1.0, asked=0.0, length=LENGTH).batch(0, 400)
    texts = [decode(ids[numbers == 0].tolist()) for ids, numbers in zip(batch.ids, batch.documents, strict=True)]
    ends = [int(count) for count in (batch.documents != PADDING).sum(1)]
    exact = sum(end == len(text) for end, text in zip(ends, texts, strict=True))
    assert 170 < exact < 260  # half of them, and some of the others
    assert max(ends) == LENGTH
    assert len(set(ends)) > 15
    behind = (batch.ids == END_ID) & (batch.documents != PADDING)
    assert bool(batch.trainable[behind].all())


def test_only_tags_and_padding_are_never_masked() -> None:
    batch = rows().batch(0, 100)
    assert torch.equal(batch.trainable, (batch.documents != PADDING) & (batch.positions > 0))


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_of_an_asked_document_one_part_may_be_masked(task: Task) -> None:
    batch = TaskRows({task.name: 1.0}, alone=0.0, asked=1.0, length=LENGTH).batch(0, 60)
    seen: set[str] = set()
    for ids, numbers, trainable in zip(batch.ids, batch.documents, batch.trainable, strict=True):
        for number in range(int(numbers.max()) + 1):
            text, marks = decode(ids[numbers == number].tolist()), trainable[numbers == number].tolist()
            start, stop = marks.index(True), len(marks) - marks[::-1].index(True)
            assert sum(marks) == stop - start  # in one piece
            assert text[start:stop] in re.findall(task.part, text)
            seen.add(text[start:stop])
    assert len(seen) > 10


def test_a_share_of_the_documents_is_asked() -> None:
    batch = TaskRows({"addition": 1.0}, alone=0.0, asked=0.25, length=LENGTH).batch(0, 300)
    trainable = batch.trainable[:, :60].reshape(300 * 6, 10).sum(-1)
    assert 380 < int((trainable < 9).sum()) < 520


def test_a_row_depends_on_seed_and_number_alone() -> None:
    whole = rows().batch(0, 30)
    part = rows().batch(10, 5)
    assert torch.equal(whole.ids[10:15], part.ids)
    assert torch.equal(whole.documents[10:15], part.documents)
    assert not torch.equal(rows(seed=1).batch(0, 30).ids, whole.ids)


def test_shares_are_kept() -> None:
    tags = Counter(decode(ids[:1].tolist()) for ids in rows().batch(0, 1000).ids)
    assert {tag: round(count / 200) for tag, count in tags.items()} == {"?": 2, "{": 1, "[": 1, "#": 1}


def test_rows_too_short_for_a_document_are_refused() -> None:
    with pytest.raises(ParameterError, match="'cities' has 61 tokens, and a row 60; take longer rows"):
        TaskRows({"sudoku": 1.0, "cities": 1.0}, alone=0.0, asked=0.0, length=60)


def vocabulary() -> Vocabulary:
    return Vocabulary(read_tokenizer(EMBEDDED / "tasks"), 98, END_ID)


def test_prepared_as_a_recipe_asks() -> None:
    source = TasksData(kind="tasks", shares={"sudoku": 2, "cities": 1})
    prepared = prepare([source], vocabulary(), length=LENGTH, seed=3)
    expected = TaskRows({"sudoku": 2, "cities": 1}, alone=0.0, asked=0.0, length=LENGTH, seed=3).batch(7, 4)
    assert torch.equal(prepared.rows.batch(7, 4).ids, expected.ids)
    assert prepared.manifest()["sources"][0]["path"] == "2 sudoku, 1 cities"
    with pytest.raises(ParameterError, match="packed 'best-fit', got 'in-order'"):
        prepare([source], vocabulary(), length=LENGTH, packing="in-order")
    with pytest.raises(ParameterError, match="must be the only data"):
        prepare([source, source], vocabulary(), length=LENGTH)


def test_another_vocabulary_is_refused() -> None:
    with pytest.raises(DataError, match="one token per character"):
        check_vocabulary(Vocabulary(read_tokenizer(EMBEDDED / "tasks"), 98, END_ID + 5))
