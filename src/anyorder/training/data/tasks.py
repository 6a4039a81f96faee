"""Rows of checkable documents, made while training goes on; each a pure function of the seed and its number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Any

import torch

from anyorder.errors import DataError, ParameterError
from anyorder.tasks import vocabulary
from anyorder.tasks.catalog import TASKS
from anyorder.tasks.task import Task
from anyorder.training.batch import PADDING, Batch
from anyorder.training.data.encode import Vocabulary

Row = tuple[list[int], list[int], list[bool]]


class TaskRows:
    """An endless stream; every row is of one task.

    Most rows hold as many documents as fit, each with end of text up to the length of its task. In a share `alone` of
    the rows there is one: half of these end with its last character, half with end of text up to a random column, so
    that a model can fill a canvas of any length. Of a share `asked` of the documents only one part may be masked, as
    the answer is in instruction data. The tag of a document, which tells the task, is never masked.

    Args:
        shares: task name -> share of the rows, in any unit.
        alone: share of the rows with one document.
        asked: share of the documents that are given but for one part.
        length: of a row, in tokens.
    Raises:
        ParameterError: a document of a task is longer than a row.
    """

    def __init__(self, shares: Mapping[str, float], *, alone: float, asked: float, length: int, seed: int = 0) -> None:
        self.tasks = [TASKS[name] for name in shares]
        self.weights = list(shares.values())
        self.alone = alone
        self.asked = asked
        self.length = length
        self.seed = seed
        longest = max(self.tasks, key=lambda task: task.length)
        if longest.length > length:
            raise ParameterError(
                f"a document of the task {longest.name!r} has {longest.length} tokens, and a row {length}; "
                "take longer rows",
                param="length",
            )

    def batch(self, start: int, count: int) -> Batch:
        """Rows number start .. start + count - 1, on the CPU."""
        ids, documents, trainable = zip(*(self._row(number) for number in range(start, start + count)), strict=True)
        return Batch(torch.tensor(ids), torch.tensor(documents), torch.tensor(trainable))

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the number of the next row is all the state there is."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The counterpart of `state_dict`."""

    def _row(self, number: int) -> Row:
        random = Random(f"{self.seed}/{number}")
        task = random.choices(self.tasks, self.weights)[0]
        if random.random() < self.alone:
            texts = [task.draw(random)]
            shortest = len(texts[0])
            size = shortest if random.random() < 0.5 else random.randint(shortest, self.length)
        else:
            texts = [task.draw(random) for _ in range(self.length // task.length)]
            size = task.length
        ids = [token for text in texts for token in vocabulary.encode(text, size)]
        documents = [place // size for place in range(len(ids))]
        trainable = [mark for text in texts for mark in self._trainable(task, text, size, random)]
        rest = self.length - len(ids)
        return ids + [vocabulary.END_ID] * rest, documents + [PADDING] * rest, trainable + [False] * rest

    def _trainable(self, task: Task, text: str, size: int, random: Random) -> list[bool]:
        start, stop = 1, size
        if random.random() < self.asked:
            start, stop = random.choice([match.span() for match in re.finditer(task.part, text)])
        return [start <= place < stop for place in range(size)]


def check_vocabulary(of: Vocabulary) -> None:
    """The documents are encoded character by character, not by the model's tokenizer: is it the same?

    Raises:
        DataError: the model has other tokens.
        ModelError: it has no tokenizer.
    """
    ids = of.require().encode_text(vocabulary.CHARACTERS)
    if ids != vocabulary.encode(vocabulary.CHARACTERS, 0) or of.end_id != vocabulary.END_ID:
        raise DataError("data of kind 'tasks' has one token per character; it is for the model \"tasks\" alone")
