"""Where drafts come from: a copy of what followed before, or a tree of the most probable continuations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from anyorder.decoders.draft import DraftTree, RowCost, grow
from anyorder.decoders.forecast import Blend, Forecast


class Drafter(Protocol):
    """Guesses what comes next; a wrong guess costs positions, never the text."""

    def draft(self, ids: Sequence[int], depth: int, forecasts: Sequence[Forecast] = ()) -> DraftTree:
        """Continuations of `ids`, which begin with those of the last call, of at most `depth` tokens each.

        Args:
            forecasts: what a denoiser says of the places behind `ids`, the nearest first.
        """
        ...


class LookupDrafter:
    """Copies what followed the last time that the context's end occurred in the context.

    Args:
        most: tokens drafted at most.
        longest: tokens of the longest end that is looked up; shorter ones are tried next.
        shortest: of the shortest.
    Source: prompt lookup decoding (A. Saxena, 2023).
    """

    def __init__(self, most: int, *, longest: int = 4, shortest: int = 1) -> None:
        self.most = most
        self.sizes = range(longest, shortest - 1, -1)
        self.followers: dict[tuple[int, ...], int] = {}  # an n-gram -> the column behind its last occurrence
        self.seen = 0

    def draft(self, ids: Sequence[int], depth: int, forecasts: Sequence[Forecast] = ()) -> DraftTree:
        """See `Drafter.draft`; forecasts are not asked."""
        self._read(ids)
        for size in self.sizes:
            start = self.followers.get(tuple(ids[-size:])) if len(ids) >= size else None
            if start is not None:
                return DraftTree.line(ids[start : start + min(self.most, depth)])
        return DraftTree()

    def _read(self, ids: Sequence[int]) -> None:
        """Take in the columns that have a follower; the context's end itself has none yet."""
        for column in range(max(self.seen, 1), len(ids)):
            for size in self.sizes:
                if column >= size:
                    self.followers[tuple(ids[column - size : column])] = column
        self.seen = len(ids)


class Guesser(Protocol):
    """Says what may come next, each guess with its chance."""

    def read(self, ids: Sequence[int]) -> None:
        """Take in the text so far, which begins with that of the last call."""
        ...

    def guesses(self, context: Sequence[int], floor: float) -> list[tuple[float, int]]:
        """(chance, token) of what may come next, different tokens, the best first, none below the floor."""
        ...


class TreeDrafter:
    """Drafts the tree that a guesser finds most probable.

    Args:
        most: tokens drafted at most.
        cost: of a row, so that no more are drafted than pay off; None drafts as many as there are.
        stop_ids: never drafted.
    """

    def __init__(
        self, guesser: Guesser, most: int, *, cost: RowCost | None = None, stop_ids: Sequence[int] = ()
    ) -> None:
        self.guesser = guesser
        self.most = most
        self.cost = cost
        self.stop_ids = frozenset(stop_ids)
        self.blend = Blend()

    def draft(self, ids: Sequence[int], depth: int, forecasts: Sequence[Forecast] = ()) -> DraftTree:
        """See `Drafter.draft`."""
        self.guesser.read(ids)
        guesses = self.blend.blended(self._guesses, forecasts)
        return grow(guesses, ids, most=self.most, depth=depth, cost=self.cost, stop_ids=self.stop_ids)

    def _guesses(self, context: Sequence[int], floor: float, depth: int) -> list[tuple[float, int]]:
        return self.guesser.guesses(context, floor)
