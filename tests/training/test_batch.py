from __future__ import annotations

import pytest
import torch
from tests.training.rows import packed

from anyorder.errors import ParameterError
from anyorder.training.batch import Batch


def test_positions_and_numbers_begin_anew_with_every_document() -> None:
    batch = packed()
    assert batch.positions.tolist() == [
        [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5],
        [0, 1, 2, 3, 4, 5, 6, 0, 1, 0, 1],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    ]
    assert batch.document_index.tolist() == [[0] * 5 + [1] * 6, [2] * 7 + [3] * 2 + [4] * 2, [5] * 11]
    assert batch.num_documents == 6


def test_blocks_are_counted_from_the_first_token_of_a_document() -> None:
    """As a decoder counts them from the first column of a request; the last block of a document may be short."""
    assert packed().block_index(4).tolist() == [
        [0, 0, 0, 0, 1, 2, 2, 2, 2, 3, 3],
        [4, 4, 4, 4, 5, 5, 5, 6, 6, 7, 7],
        [8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10],
    ]
    assert packed().num_blocks(4) == 11


def test_the_same_number_in_two_rows_is_two_documents() -> None:
    assert Batch.of(torch.zeros(2, 3, dtype=torch.int64)).document_index.tolist() == [[0] * 3, [1] * 3]


def test_bad_rows_are_refused() -> None:
    ids = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(ParameterError, match=r"`trainable` must be torch.bool \[B, L\] .* got torch.int64 \(2, 3\)"):
        Batch(ids, ids, ids)
    with pytest.raises(ParameterError, match="`documents` must be"):
        Batch(ids, ids[:1], ids.bool())
    with pytest.raises(ParameterError, match="`ids` must be"):
        Batch(ids.flatten(), ids.flatten(), ids.flatten().bool())
    with pytest.raises(ParameterError, match="marks padding"):
        Batch(ids, ids - 1, ids == 0)
    with pytest.raises(ParameterError, match="`block_length` must be a positive integer, got 0"):
        packed().block_index(0)
