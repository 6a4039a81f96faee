"""Batches with everything that can go wrong in one: ragged documents, short blocks, prompts, padding."""

from __future__ import annotations

import torch

from anyorder.training.batch import Batch

LENGTHS = ((5, 6), (7, 2), (11,))
"""Of the documents in each row of 11; what is left is padding."""
PROMPT = 2
"""Tokens at the head of each document that are not trainable."""


def packed(seed: int = 0, *, vocabulary: int = 20, prompt: int = PROMPT) -> Batch:
    """Three rows of 11 random tokens."""
    documents = torch.full((len(LENGTHS), 11), -1)
    trainable = torch.zeros(len(LENGTHS), 11, dtype=torch.bool)
    for row, lengths in enumerate(LENGTHS):
        start = 0
        for number, length in enumerate(lengths):
            documents[row, start : start + length] = number
            trainable[row, start + prompt : start + length] = True
            start += length
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, vocabulary, documents.shape, generator=generator)
    return Batch(ids, documents, trainable)


def spans(batch: Batch) -> list[tuple[int, slice]]:
    """(row, columns) of every document, padding left out, found the slow way."""
    found: list[tuple[int, slice]] = []
    for row, numbers in enumerate(batch.documents.tolist()):
        start = 0
        for column in range(1, len(numbers) + 1):
            if column == len(numbers) or numbers[column] != numbers[start]:
                if numbers[start] >= 0:
                    found.append((row, slice(start, column)))
                start = column
    return found
