"""The next token by counting: what followed the same contexts in this text and in the table, the longest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from anyorder.ngrams.table import NgramTable
from anyorder.ngrams.weights import LEVELS, Weights

WIDTH = 8  # guesses per place; the next ones are hardly ever worth a row


class SeenText:
    """Followers of every context of 1 to `LEVELS` tokens in the text so far, with their counts."""

    def __init__(self) -> None:
        self.counts: dict[tuple[int, ...], dict[int, int]] = {}
        self.seen = 0

    def read(self, ids: Sequence[int]) -> None:
        """Take in the text, which must begin with that of the last call."""
        for place in range(max(self.seen, 1), len(ids)):
            token = ids[place]
            for level in range(1, min(LEVELS, place) + 1):
                followers = self.counts.setdefault(tuple(ids[place - level : place]), {})
                followers[token] = followers.get(token, 0) + 1
        self.seen = len(ids)

    def matches(self, context: Sequence[int]) -> list[dict[int, int]]:
        """For every end of `context` that occurs, shortest first, its followers."""
        found: list[dict[int, int]] = []
        for level in range(1, min(LEVELS, len(context)) + 1):
            followers = self.counts.get(tuple(context[-level:]))
            if followers is None:
                break
            found.append(followers)
        return found


class Guesser:
    """Ranks what may come next, each guess with its chance of being right.

    From the longest context that occurs to the shortest, every one gets a share of the chance that is left and gives it
    to its followers in proportion to their counts. How large a share a context deserves is fitted on text: see
    `anyorder.ngrams.fit`.

    Args:
        table: of other text; None guesses from the text so far alone.
        weights: what a match is worth.
    Source: interpolated n-grams (Jelinek and Mercer 1980); the shares are a regression in place of their held-out bins.
    """

    def __init__(self, table: NgramTable | None, weights: Weights) -> None:
        self.table = table
        self.weights = weights
        self.text = SeenText()

    def read(self, ids: Sequence[int]) -> None:
        """Take in the text so far, which must begin with that of the last call."""
        self.text.read(ids)

    def matches(self, context: Sequence[int]) -> Iterator[tuple[int, int, Mapping[int, int]]]:
        """(source, level - 1, token -> count) of every context that says something new, the longest first."""
        seen = self.text.matches(context)
        runs = [] if self.table is None else self.table.matches(context)
        for level in range(max(len(seen), len(runs)) - 1, -1, -1):
            if level < len(seen) and (level + 1 >= len(seen) or seen[level] != seen[level + 1]):
                yield 0, level, seen[level]
            if level < len(runs) and (level + 1 >= len(runs) or runs[level] != runs[level + 1]):
                assert self.table is not None
                yield 1, level, self.table.followers(*runs[level])

    def guesses(self, context: Sequence[int], floor: float) -> list[tuple[float, int]]:
        """Up to `WIDTH` (chance, token), the best first; those below `floor` are left out.

        Contributions below floor / 64 are not added up, and shorter contexts not asked for less than floor / 4.
        """
        left, least, chances = 1.0, floor / 64, dict[int, float]()
        for source, level, counts in self.matches(context):
            total = sum(counts.values())
            share = self.weights.share(source, level, total, len(counts))
            each = left * share / total
            for token, count in counts.items():
                if each * count >= least:
                    chances[token] = chances.get(token, 0.0) + each * count
                elif source:
                    break  # the table's are sorted
            left *= 1 - share
            if left < floor / 4:
                break
        found = [(chance, token) for token, chance in chances.items() if chance >= floor]
        found.sort(reverse=True)
        return found[:WIDTH]
