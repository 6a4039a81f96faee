"""Draft trees: what they mean, what a model accepts of them, and that they grow where it pays."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.decoders.trees import paths, trees

from anyorder.decoders.draft import CONTEXT, LEAST, DraftTree, RowCost, accepted, grow

TEXT = 7  # the last token of the text so far


@given(trees())
def test_depths_and_lineage_are_those_of_the_paths(tree: DraftTree) -> None:
    spelled = paths(tree)
    assert tree.depths() == [len(path) for path in spelled]
    expected = [[other == path[: len(other)] for other in spelled] for path in spelled]
    assert tree.lineage().tolist() == expected
    assert tree.lineage().shape == (len(tree), len(tree))


def test_a_line_is_a_tree() -> None:
    assert DraftTree.line([4, 5, 6]) == DraftTree((4, 5, 6), (-1, 0, 1))
    assert DraftTree.line([]) == DraftTree()
    assert DraftTree.line([4, 5, 6]).is_line
    assert DraftTree().is_line
    assert not DraftTree((4, 5), (-1, -1)).is_line


@given(trees())
def test_the_main_line_comes_first_and_nothing_else_changes(tree: DraftTree) -> None:
    again = tree.main_line_first()
    assert sorted(paths(again)) == sorted(paths(tree))
    assert all(parent < node for node, parent in enumerate(again.parents))
    line = list[int]()
    for node in range(len(again)):
        if again.parents[node] != node - 1:
            break
        line.append(again.tokens[node])
    first = {parent: node for node, parent in reversed(list(enumerate(tree.parents)))}
    expected, node = list[int](), -1
    while node in first:
        node = first[node]
        expected.append(tree.tokens[node])
    assert line[: len(expected)] == expected


@given(trees(), st.data(), st.sets(st.integers(0, 2), max_size=1))
def test_a_model_accepts_what_it_would_have_written(tree: DraftTree, data: st.DataObject, stops: set[int]) -> None:
    taken = data.draw(st.lists(st.integers(0, 2), min_size=1 + len(tree), max_size=1 + len(tree)))
    spelled, written = paths(tree), tuple[int, ...]()
    walked: set[int] = set()
    token = taken[0]
    while token not in stops and (*written, token) in spelled:
        written = (*written, token)
        node = spelled.index(written)
        walked.add(node)
        token = taken[1 + node]
    found = accepted(tree, tree.lineage(), torch.tensor(taken), torch.tensor(sorted(stops), dtype=torch.int64))
    assert set(found.nonzero().flatten().tolist()) == walked


@given(st.integers(0, 2**32), st.integers(0, 30), st.integers(0, 6), st.sampled_from([None, 0.02, 0.1, 0.5]))
def test_a_tree_grows_by_chance(seed: int, most: int, depth: int, each: float | None) -> None:
    """No node outside the tree is more probable than one inside, unless the tree may not hold it."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.rand(6, 6, generator=generator).softmax(-1).tolist()
    cost = None if each is None else RowCost(3, each)

    def guesses(context: Sequence[int], floor: float, depth: int) -> list[tuple[float, int]]:
        found = [(chance, token) for token, chance in enumerate(table[context[-1] % 6]) if chance >= floor]
        return sorted(found, reverse=True)

    tree = grow(guesses, [TEXT], most=most, depth=depth, cost=cost, stop_ids=frozenset([5]))

    def chance(path: Sequence[int]) -> float:
        product = 1.0
        for before, token in itertools.pairwise([TEXT, *path]):
            product *= table[before % 6][token]
        return product

    inside = set(paths(tree))
    assert len(inside) == len(tree) <= most
    assert all(5 not in path and len(path) <= depth for path in inside)
    chances = [chance(path) for path in inside]
    fringe = [(*path, token) for path in [(), *inside] for token in range(5)]
    best = max((chance(p) for p in fringe if p not in inside and len(p) <= depth), default=0.0)
    assert not chances or best <= min(chances) + 1e-12
    least = LEAST if cost is None else max(LEAST, cost.each / 4)
    assert all(c >= least - 1e-12 for c in chances)
    if cost is not None and len(tree) < most and best > least + 1e-9:
        assert not cost.pays(best * (1 - 1e-9), 1 + sum(chances), len(tree) + 1)
    elif len(tree) < most:
        assert best < least + 1e-9


def test_rows_that_cost_nothing_are_filled_and_dear_ones_are_not() -> None:
    def guesses(context: Sequence[int], floor: float, depth: int) -> list[tuple[float, int]]:
        return [(0.3, 1), (0.2, 2), (0.1, 3)] if context[-1] == TEXT else []

    grown = [grow(guesses, [TEXT], most=9, depth=4, cost=RowCost(free, 0.15)).tokens for free in (1, 2, 3, 4)]
    assert grown == [(1, 2), (1, 2), (1, 2), (1, 2, 3)]
    assert grow(guesses, [TEXT], most=9, depth=4, cost=RowCost(1, 0.4)).tokens == ()


def test_guesses_see_the_end_of_the_text_and_the_path() -> None:
    seen: list[list[int]] = []

    def guesses(context: Sequence[int], floor: float, depth: int) -> list[tuple[float, int]]:
        seen.append(list(context))
        return [(0.9, context[-1] + 1)]

    text = list(range(50))
    tree = grow(guesses, text, most=3, depth=9)
    assert tree.tokens == (50, 51, 52)
    assert seen == [[*text, 50, 51, 52][at : at + CONTEXT] for at in range(18, 21)]


def test_the_floor_is_what_a_path_leaves() -> None:
    floors: list[float] = []

    def guesses(context: Sequence[int], floor: float, depth: int) -> list[tuple[float, int]]:
        floors.append(floor)
        return [(0.5, 1)]

    grow(guesses, [TEXT], most=3, depth=9, cost=RowCost(4, 0.08))
    assert floors == pytest.approx([0.02, 0.04, 0.08])  # nothing is looked up behind the last node
