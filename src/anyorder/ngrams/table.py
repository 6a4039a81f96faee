"""A text whose places are sorted by what stands before them, so that a context's followers lie side by side."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from anyorder.errors import DataError
from anyorder.ngrams.weights import LARGEST, LEVELS, Weights

FILE = "ngrams.safetensors"
"""Name of a model's table beside its weights."""
FORMAT = "anyorder-ngrams-1"
SAMPLE = 128  # places that stand for all of a frequent context: its best followers show after fewer
KEPT = 1 << 15  # answers kept for next time: most texts are made of the same contexts


class NgramTable:
    """Followers of every context of 1 to `LEVELS` tokens in a text, with their counts.

    A suffix array read backwards: `order` sorts the predicted places by the token before them, then by the one before
    that, and so on. All places behind one context are then a run of `order`, a longer context is a run inside it, and
    one binary search per token of context finds it. That takes 6 bytes per token of text and keeps every length.

    Args:
        tokens: [M] uint16 or int32, `LEVELS` separators, then each text and a separator behind it.
        order: [N] int32, places in `tokens`.
        weights: how much a match is worth, from `anyorder.ngrams.fit`.
    """

    def __init__(self, tokens: NDArray[Any], order: NDArray[np.int32], weights: Weights) -> None:
        self.weights = weights
        self.arrays = {"tokens": tokens, "order": order}
        self._tokens, self._order = tokens.data, order.data  # an element of an array costs thrice as much
        self.followers = lru_cache(KEPT)(self._followers)
        self._narrowed = lru_cache(KEPT)(self._narrow)

    def __len__(self) -> int:
        """Places, so predicted tokens."""
        return len(self._order)

    @classmethod
    def of(cls, texts: Iterable[tuple[Sequence[int], Sequence[int]]], weights: Weights) -> NgramTable:
        """Sort a text.

        Args:
            texts: (what stands before, what is to be predicted) token ids of every piece; contexts reach into the
                former and end at the piece's beginning.
        """
        pieces = list(texts)
        highest = max((max(part) for piece in pieces for part in piece if len(part)), default=0)
        dtype = np.uint16 if highest < np.iinfo(np.uint16).max else np.int32
        separator = int(np.iinfo(dtype).max)
        tokens, places = [separator] * LEVELS, list[int]()
        for before, predicted in pieces:
            seen = before[-LEVELS:]  # no context reaches further
            start = len(tokens) + len(seen)
            tokens += [*seen, *predicted, separator]
            places += range(start, start + len(predicted))
        ids, at = np.array(tokens, dtype), np.array(places, np.int32)
        order = np.lexsort([ids[at - back] for back in range(LEVELS, 0, -1)])  # the last key sorts first
        return cls(ids, at[order], weights)

    def matches(self, context: Sequence[int]) -> list[tuple[int, int]]:
        """For every end of `context` that occurs, shortest first, its run [start, end) in the sorted places."""
        run, runs = (0, len(self._order)), list[tuple[int, int]]()
        for back in range(1, min(LEVELS, len(context)) + 1):
            run = self._narrowed(run, back, context[-back])
            if run[0] == run[1]:
                break
            runs.append(run)
        return runs

    def _narrow(self, run: tuple[int, int], back: int, token: int) -> tuple[int, int]:
        """The part of the run whose places have `token` as the `back`-th before them."""
        tokens, order = self._tokens, self._order

        def before(rank: int) -> int:
            return tokens[order[rank] - back]

        ranks = range(run[1])
        start = bisect_left(ranks, token, *run, key=before)
        return start, bisect_right(ranks, token, start, run[1], key=before)

    def _followers(self, start: int, end: int) -> dict[int, int]:
        """Token -> how often it follows in the run, the most frequent first; not to be changed.

        Of a long run `SAMPLE` places, spread evenly, are counted.
        """
        tokens, order = self._tokens, self._order
        count = min(end - start, SAMPLE)
        ranks = range(start, end) if count < SAMPLE else [start + i * (end - start) // count for i in range(count)]
        return dict(Counter([tokens[order[rank]] for rank in ranks]).most_common())

    def check_vocabulary(self, size: int, source: object) -> None:
        """Raise a DataError if the text holds a token that a model with `size` tokens does not know."""
        tokens = self.arrays["tokens"]
        highest = int(tokens[tokens != np.iinfo(tokens.dtype).max].max(initial=0))
        if highest >= size:
            raise DataError(
                f"{source} holds token id {highest}, the model knows 0 to {size - 1}; it belongs to another model"
            )

    def save(self, path: Path) -> None:
        """Write everything into one safetensors file."""
        path.write_bytes(save({**self.arrays, "weights": self.weights.numbers}, {"format": FORMAT}))

    @classmethod
    def load(cls, path: Path) -> NgramTable:
        """Read what `save` wrote.

        Raises:
            DataError: the file is missing, damaged, or something else.
        """
        try:
            with safe_open(path, framework="np") as file:
                known = (file.metadata() or {}).get("format")
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
        except (OSError, SafetensorError) as error:
            raise DataError(f"{path} cannot be read as a draft table ({error}); make it anew") from None
        fault = f"its format is {known!r}, not {FORMAT!r}" if known != FORMAT else _fault(arrays)
        if fault:
            raise DataError(f"{path} is no usable draft table: {fault}; make it anew")
        return cls(arrays["tokens"], arrays["order"], Weights(arrays["weights"]))


def _fault(arrays: dict[str, NDArray[Any]]) -> str | None:
    """What the arrays of a file lack, or None."""
    if set(arrays) != {"tokens", "order", "weights"}:
        return f"it holds {', '.join(sorted(arrays)) or 'nothing'} in place of order, tokens, weights"
    tokens, order, weights = arrays["tokens"], arrays["order"], arrays["weights"]
    if str(tokens.dtype) not in ("uint16", "int32") or order.dtype != np.int32 or tokens.ndim != 1 or order.ndim != 1:
        return f"its arrays are {tokens.dtype}{list(tokens.shape)} and {order.dtype}{list(order.shape)}"
    if len(order) and not (order.min() >= LEVELS and order.max() < len(tokens)):
        return f"its places do not lie in its text of {len(tokens)} tokens"
    if weights.shape != Weights.SHAPE or weights.dtype != np.float32 or not (np.abs(weights) <= LARGEST).all():
        return f"its weights are {weights.dtype}{list(weights.shape)}, or not from -{LARGEST} to {LARGEST}"
    return None
