"""Drafts: several continuations of a text as one tree, grown where a token is most likely to be accepted."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

Guesses = Callable[[Sequence[int], float, int], list[tuple[float, int]]]
"""(context, floor, depth) -> (chance, token) of what may come next, different tokens, the best first, none below the
floor; depth is 1 for the token behind the text."""

LEAST = 0.005  # chance of a node; even where rows cost nothing, less is not worth the handling
CONTEXT = 32  # tokens that guesses may look at


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Drafted tokens, each behind its parent, the first ones behind the text. The children of a node are different."""

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    """An earlier node, or -1: the text."""
    chances: tuple[float, ...] = ()
    """Of being accepted, where the tree was grown by them."""

    @classmethod
    def line(cls, tokens: Sequence[int]) -> DraftTree:
        """One continuation, each token behind the one before."""
        return cls(tuple(tokens), tuple(range(-1, len(tokens) - 1)))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_line(self) -> bool:
        """Is every node behind the one before it?"""
        return self.parents == tuple(range(-1, len(self) - 1))

    def path(self, node: int) -> Iterator[int]:
        """The node, its parent and so on, to the first behind the text."""
        while node >= 0:
            yield node
            node = self.parents[node]

    def depths(self) -> list[int]:
        """Tokens from the text to each node, itself included."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(depths[parent] + 1 if parent >= 0 else 1)
        return depths

    def lineage(self) -> Tensor:
        """[N, N] bool, True where a column's node is the row's ancestor or itself: what a node sees."""
        sees = torch.zeros(len(self), len(self), dtype=torch.bool)
        pairs = [(node, seen) for node in range(len(self)) for seen in self.path(node)]
        if pairs:
            sees[tuple(torch.tensor(pairs).unbind(1))] = True
        return sees

    def main_line_first(self) -> DraftTree:
        """The same tree with the first child of the first child and so on in front: its keys likely stay in place."""
        line, node = list[int](), -1
        while node in self.parents:
            node = self.parents.index(node)
            line.append(node)
        order = line + [node for node in range(len(self)) if node not in line]
        new = {old: index for index, old in enumerate(order)} | {-1: -1}
        return DraftTree(
            tuple(self.tokens[n] for n in order),
            tuple(new[self.parents[n]] for n in order),
            tuple(self.chances[n] for n in order if self.chances),
        )


def accepted(tree: DraftTree, lineage: Tensor, taken: Tensor, stop_ids: Tensor) -> Tensor:
    """Which drafted tokens the model agrees with: a path from the text on.

    Args:
        lineage: [N, N] bool of the tree.
        taken: [1 + N] int64, the model's token behind the text and behind every node.
        stop_ids: nothing is accepted behind them.
    Returns:
        [N] bool on the device of `taken`.
    """
    above = taken[torch.tensor(tree.parents, dtype=torch.int64).to(taken.device) + 1]
    agrees = above == torch.tensor(tree.tokens, dtype=torch.int64).to(taken.device)
    agrees &= ~torch.isin(above, stop_ids.to(taken.device))
    return (agrees | ~lineage.to(taken.device)).all(-1)


@dataclass(frozen=True, slots=True)
class RowCost:
    """Time of a pass by the tokens it feeds, relative to a pass over one."""

    free: int
    """Tokens that cost no more than one."""
    each: float
    """Of every further token."""

    def of(self, rows: int) -> float:
        """Time of a pass over `rows` tokens."""
        return 1 + self.each * max(0, rows - self.free)

    def pays(self, gain: float, expected: float, rows: int) -> bool:
        """Does a row that brings `gain` tokens make a pass that brings `expected` from `rows` bring more per time?"""
        return gain * self.of(rows) > expected * (self.of(rows + 1) - self.of(rows))


CPU_ROWS = RowCost(4, 0.03)
ACCELERATOR_ROWS = RowCost(32, 0.004)


def grow(
    guesses: Guesses,
    context: Sequence[int],
    *,
    most: int,
    depth: int,
    cost: RowCost | None = None,
    stop_ids: frozenset[int] = frozenset(),
) -> DraftTree:
    """The tree of the most probable continuations.

    A node is accepted if its whole path is right, so its chance is the product of its path's, and the tree's expected
    gain is the sum of its nodes' chances. The best node is added next, as long as there is one, and as long as it
    brings more tokens per time than the pass has without it.

    Args:
        guesses: what may come next.
        context: the text so far, or its end.
        most: nodes at most.
        depth: longest path.
        cost: what a row costs; None: nothing.
        stop_ids: never drafted: a stop token is committed by the row before it, and nothing comes behind it.
    """
    tokens, parents, chances = list[int](), list[int](), list[float]()
    heap: list[tuple[float, int, int, int, int, list[int]]] = []  # -chance, number, parent, token, depth, context
    numbers, least = count(), LEAST if cost is None else max(LEAST, cost.each / 4)

    def push(parent: int, chance: float, context: list[int], depth: int) -> None:
        for share, token in guesses(context, least / chance, depth):
            if token not in stop_ids:
                heapq.heappush(heap, (-chance * share, next(numbers), parent, token, depth, context))

    def pays(chance: float) -> bool:
        return len(tokens) < most and (cost is None or cost.pays(chance, expected, len(tokens) + 1))

    expected = 1.0  # the model's own token
    if most and depth:
        push(-1, 1.0, list(context[-CONTEXT:]), 1)
    while heap and pays(-heap[0][0]):
        minus, _, parent, token, at, behind = heapq.heappop(heap)
        expected -= minus
        tokens.append(token)
        parents.append(parent)
        chances.append(-minus)
        if at < depth and pays(-minus):  # what comes behind a node is no more probable than the node
            push(len(tokens) - 1, -minus, [*behind[1 - CONTEXT :], token], at + 1)
    return DraftTree(tuple(tokens), tuple(parents), tuple(chances)).main_line_first()
