"""The mask against its definition pair by pair, and the fast paths against the mask."""

from __future__ import annotations

import itertools

import pytest
import torch
from tests.training.rows import packed
from torch import Tensor

from anyorder.models.transformer import Attend
from anyorder.training import attention as attention_module
from anyorder.training.attention import (
    ChunkedAttention,
    DenseAttention,
    FlexAttention,
    Layout,
    Sight,
    attention,
    dense_mask,
    flex_rule,
)

CASES: list[tuple[Sight, int]] = [
    ("bidirectional", 1),
    ("block", 1),
    ("causal", 1),
    ("block", 2),
    ("causal", 2),
    ("block", 3),
]
cases = pytest.mark.parametrize(("sight", "streams"), CASES)
BLOCK = 4


def layout_of(sight: Sight, streams: int, device: str = "cpu") -> Layout:
    batch = packed()
    return Layout(
        documents=batch.document_index.to(device),
        blocks=batch.block_index(BLOCK).to(device),
        sight=sight,
        streams=streams,
    )


POSITIONS = packed().positions.tolist()
DOCUMENTS = packed().document_index.tolist()


def may_look(sight: Sight, query: tuple[int, int, int], key: tuple[int, int, int]) -> bool:
    """The definition in words, for one pair of (stream, row, column)."""
    (from_stream, row, i), (to_stream, other_row, j) = query, key
    if row != other_row or DOCUMENTS[row][i] != DOCUMENTS[row][j]:
        return False
    block_i, block_j = (POSITIONS[row][column] // BLOCK for column in (i, j))
    if from_stream == 0:
        return to_stream == 0 and {"bidirectional": True, "block": block_j <= block_i, "causal": j <= i}[sight]
    if to_stream == 0:
        return block_j < block_i
    return to_stream == from_stream and block_j == block_i


@cases
def test_the_mask_is_its_definition(sight: Sight, streams: int) -> None:
    tokens = list(itertools.product(range(streams), range(3), range(11)))
    want = [[may_look(sight, query, key) for key in tokens] for query in tokens]
    assert dense_mask(layout_of(sight, streams)).tolist() == want


def test_the_three_parts_of_block_diffusion() -> None:
    """One document of two blocks of two, the clean half first: block causal; offset block causal, block diagonal."""
    layout = Layout(documents=torch.zeros(1, 4).long(), blocks=torch.tensor([[0, 0, 1, 1]]), sight="block", streams=2)
    picture = ["".join("x" if seen else "." for seen in row) for row in dense_mask(layout).tolist()]
    assert picture == [
        "xx......",
        "xx......",
        "xxxx....",
        "xxxx....",
        "....xx..",
        "....xx..",
        "xx....xx",
        "xx....xx",
    ]


def tensors(layout: Layout, queries: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """q, k, v of 4 query and 2 key heads, and the gradient of the result."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(queries, 4, 8), (layout.num_tokens, 2, 8), (layout.num_tokens, 2, 8), (queries, 4, 8)]
    return [torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes]


def results(attend: Attend, q: Tensor, k: Tensor, v: Tensor, grad: Tensor) -> list[Tensor]:
    """The mixed values, and the gradients of q, k and v."""
    inputs = [x.clone().requires_grad_() for x in (q, k, v)]
    mixed = attend(0, *inputs)
    return [mixed.detach(), *torch.autograd.grad(mixed, inputs, grad)]


@cases
@pytest.mark.parametrize("chunk", [1, 3, 4, 128])
def test_chunks_attend_as_the_mask_says(sight: Sight, streams: int, chunk: int) -> None:
    layout = layout_of(sight, streams)
    rows = torch.arange(layout.num_tokens)
    given = tensors(layout, layout.num_tokens)
    got = results(ChunkedAttention(layout, rows, chunk=chunk), *given)
    torch.testing.assert_close(got, results(DenseAttention(layout, rows), *given), rtol=1e-12, atol=1e-12)


@cases
@pytest.mark.parametrize("where", ["context", "noisy", "both"])
def test_the_last_layer_answers_for_the_wanted_rows(sight: Sight, streams: int, where: str) -> None:
    layout = layout_of(sight, streams)
    size = layout.documents.numel()
    rows = {"context": [0, 7, size - 1], "noisy": [size, size + 5], "both": [3, size + 9]}[where]
    wanted = torch.tensor([row % layout.num_tokens for row in rows])
    given = tensors(layout, len(wanted))
    got = results(ChunkedAttention(layout, wanted, chunk=3), *given)
    torch.testing.assert_close(got, results(DenseAttention(layout, wanted), *given), rtol=1e-12, atol=1e-12)


@cases
def test_nothing_is_attended_to_for_no_rows(sight: Sight, streams: int) -> None:
    layout = layout_of(sight, streams)
    none = torch.arange(0)
    q, k, v, _ = tensors(layout, 0)
    assert ChunkedAttention(layout, none)(1, q, k, v).shape == q.shape


def test_no_mask_is_kept_where_everything_of_a_chunk_is_seen() -> None:
    """Rows of whole documents cut at block boundaries: the halves that the mask rules out are never computed."""
    layout = Layout(
        documents=torch.arange(2)[:, None].expand(2, 12),
        blocks=(torch.arange(12) // 4).expand(2, 12) + torch.tensor([[0], [3]]),
        sight="block",
        streams=2,
    )
    chunks = ChunkedAttention(layout, torch.arange(1), chunk=4)
    assert [c.context.stop for c in chunks.context] == [4, 8, 12]
    assert [(c.context.stop, c.own.start, c.own.stop) for c in chunks.noisy] == [(0, 0, 4), (4, 4, 8), (8, 8, 12)]
    assert all(c.mask is None for c in (*chunks.context, *chunks.noisy))


@cases
def test_the_rule_of_flex_attention_is_the_mask(sight: Sight, streams: int) -> None:
    from torch.nn.attention.flex_attention import create_mask

    layout = layout_of(sight, streams)
    per_row = create_mask(flex_rule(layout), 3, None, streams * 11, streams * 11, device="cpu")  # [B, 1, S L, S L]
    want = dense_mask(layout).view(streams, 3, 11, streams, 3, 11)
    for row in range(3):
        assert torch.equal(per_row[row, 0], want[:, row, :, :, row].reshape(streams * 11, -1))


@cases
def test_flex_attention_lays_the_tokens_out_rightly(
    sight: Sight, streams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward, on the CPU, with the mask that the rule gives in the place of the kernel."""

    def kernel(q: Tensor, k: Tensor, v: Tensor, *, block_mask: Tensor, enable_gqa: bool) -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=block_mask, enable_gqa=enable_gqa)

    from torch.nn.attention import flex_attention

    monkeypatch.setattr(flex_attention, "create_block_mask", flex_attention.create_mask)
    monkeypatch.setattr(attention_module, "_compiled", lambda: kernel)
    layout = layout_of(sight, streams)
    for rows in (torch.arange(layout.num_tokens), torch.tensor([1, 5, layout.num_tokens - 1])):
        q, k, v, _ = tensors(layout, len(rows))
        got = FlexAttention(layout, rows)(0, q, k, v)
        torch.testing.assert_close(got, DenseAttention(layout, rows)(0, q, k, v), rtol=1e-12, atol=1e-12)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@cases
def test_flex_attention_attends_as_the_mask_says(sight: Sight, streams: int) -> None:
    layout = layout_of(sight, streams, "cuda")
    for rows in (torch.arange(layout.num_tokens, device="cuda"), torch.tensor([1, 5, 20], device="cuda")):
        # FlexAttention's kernel wants heads of at least 16
        given = [x.cuda().repeat(1, 1, 4) for x in tensors(layout, len(rows), torch.float32)]
        attend = attention(layout, rows)
        assert isinstance(attend, FlexAttention)
        got = results(attend, *given)
        torch.testing.assert_close(got, results(DenseAttention(layout, rows), *given), rtol=2e-2, atol=2e-2)
