"""Drafters: what they guess from."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.decoders.trees import paths

from anyorder.decoders.draft import DraftTree, RowCost
from anyorder.decoders.drafters import Drafter, LookupDrafter, TreeDrafter
from anyorder.ngrams import Guesser, NgramTable
from anyorder.ngrams.weights import PRIOR


def test_lookup_copies_what_followed_the_longest_match() -> None:
    text = [1, 2, 3, 4, 9, 2, 3, 7, 1, 2, 3]
    assert LookupDrafter(2, longest=3).draft(text, 9).tokens == (4, 9)  # the shorter 2 3 last led to 7
    drafter = LookupDrafter(3, longest=3)
    assert drafter.draft(text, 9).tokens == (4, 9, 2)
    assert drafter.draft([*text, 4], 9) == DraftTree.line([9, 2, 3])
    assert drafter.draft([*text, 4, 9], 2) == DraftTree.line([2, 3])
    assert drafter.draft([*text, 4, 9, 42], 9) == DraftTree()


def both(most: int) -> list[Drafter]:
    table = NgramTable.of([((), (1, 2, 3, 1, 2, 4, 1, 2, 5))], PRIOR)
    return [LookupDrafter(most), TreeDrafter(Guesser(table, PRIOR), most)]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(1, 9), st.integers(0, 6))
def test_no_drafter_goes_beyond_its_bounds(ids: list[int], most: int, depth: int) -> None:
    for drafter in both(most):
        tree = drafter.draft(ids, depth)
        assert len(tree) <= most
        assert max(tree.depths(), default=0) <= depth
        assert len(set(paths(tree))) == len(tree)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=30), st.data())
def test_reading_the_text_piece_by_piece_is_reading_it(ids: list[int], data: st.DataObject) -> None:
    for pieces, whole in zip(both(5), both(5), strict=True):
        for cut in sorted(data.draw(st.lists(st.integers(1, len(ids)), max_size=4))):
            pieces.draft(ids[:cut], 4)
        assert pieces.draft(ids, 4) == whole.draft(ids, 4)


def test_a_tree_is_made_of_text_and_table() -> None:
    table = NgramTable.of([((), (1, 2, 8, 9)), ((), (1, 2, 8, 9))], PRIOR)
    drafter = TreeDrafter(Guesser(table, PRIOR), 8)
    found = paths(drafter.draft([1, 2, 3, 4, 1, 2], 2))
    assert (3, 4) in found  # from the text
    assert (8, 9) in found  # from the table
    assert (8,) not in paths(TreeDrafter(Guesser(None, PRIOR), 8).draft([1, 2, 3, 4, 1, 2], 2))


def test_a_tree_stops_where_rows_no_longer_pay_and_never_drafts_a_stop_token() -> None:
    text = [1, 2, 3, 1, 2, 4, 1, 2, 5, 1, 2]
    sizes = [
        len(TreeDrafter(Guesser(None, PRIOR), 99, cost=RowCost(1, each)).draft(text, 9)) for each in (0.01, 0.1, 2.0)
    ]
    assert sizes[0] > sizes[1] > sizes[2]

    def tokens(stop_ids: Sequence[int]) -> set[int]:
        return set(TreeDrafter(Guesser(None, PRIOR), 99, stop_ids=stop_ids).draft(text, 9).tokens)

    assert 4 in tokens(())
    assert tokens([4]) == tokens(()) - {4}
