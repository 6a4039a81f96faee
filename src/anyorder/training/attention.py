"""Who sees whom in a training pass: one rule, its slow and obvious mask, and two fast ways of attending by it.

A pass feeds one or more *streams*: copies of the batch's rows, each [B, L], one behind the other. Stream 0 is the
*context*; any further ones are noisy copies of it (block diffusion's noisy ‖ clean, with the clean half first). All
streams share documents, blocks and positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from anyorder.models.attention import sdpa
from anyorder.models.transformer import Attend

Sight = Literal["bidirectional", "block", "causal"]
"""What a token of the context sees of its own document: all, its own and earlier blocks, or itself and what is left of
it."""

CHUNK = 64
"""Columns whose queries attend together on a CPU; measured in docs/training-objectives.md."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """What attention must know of the fed tokens, T = streams * B * L."""

    documents: Tensor
    """[B, L] int64, number of each token's document; rows never see each other."""
    blocks: Tensor
    """[B, L] int64, number of each token's block, rising within a document; blocks lie within documents."""
    sight: Sight
    """Of the context. Noisy streams see their own block and the context's earlier blocks whatever it is."""
    streams: int = 1

    @property
    def num_tokens(self) -> int:
        return self.streams * self.documents.numel()


@dataclass(frozen=True)
class Place:
    """Streams and columns of some tokens, as tensors (or a number) that broadcast against each other."""

    stream: Tensor | int
    column: Tensor


def sees(layout: Layout, row: Tensor, query: Place, key: Place) -> Tensor:
    """The rule: may `query` look at `key` in the same row of the batch? Broadcasts over everything; bool.

    - Nobody sees another document.
    - The context sees the context as far as `sight` allows, and never a noisy stream.
    - A noisy stream sees its own block in itself (block diagonal), and the context's tokens of earlier blocks (offset
      block causal): never the context of its own block, which holds the answers, and never another noisy stream.

    Source: BD3-LM, arXiv:2503.09573 (its M_BD, M_OBC and M_BC).
    """
    query_block, key_block = layout.blocks[row, query.column], layout.blocks[row, key.column]
    same_document = layout.documents[row, query.column] == layout.documents[row, key.column]
    in_context = torch.as_tensor(key.stream == 0)
    own_block = torch.as_tensor(key.stream == query.stream) & (key_block == query_block)
    noisy = own_block | (in_context & (key_block < query_block))
    context = in_context & _in_sight(layout.sight, query_block, key_block, query.column, key.column)
    return same_document & torch.where(torch.as_tensor(query.stream == 0), context, noisy)


def _in_sight(sight: Sight, query_block: Tensor, key_block: Tensor, query: Tensor, key: Tensor) -> Tensor:
    match sight:
        case "bidirectional":
            return torch.ones_like(query_block == key_block)
        case "block":
            return key_block <= query_block
        case "causal":
            return key <= query


def dense_mask(layout: Layout) -> Tensor:
    """[T, T] bool, True where a query (row) may look: the whole rule written out, for tests and small sizes."""
    batch, length = layout.documents.shape
    token = torch.arange(layout.num_tokens, device=layout.documents.device)
    stream, row, column = token // (batch * length), token // length % batch, token % length
    allowed = sees(layout, row[:, None], Place(stream[:, None], column[:, None]), Place(stream, column))
    return allowed & (row[:, None] == row)


class DenseAttention:
    """`Attend` by the dense mask: the slow, obvious twin.

    Args:
        layout: of the fed tokens.
        rows: [R] int64, strictly increasing, the wanted rows of the last layer.
    """

    def __init__(self, layout: Layout, rows: Tensor) -> None:
        self.layout = layout
        self.mask = dense_mask(layout)
        self.rows = rows

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
        mask = self.mask if q.shape[0] == k.shape[0] else self.mask[self.rows]
        return sdpa(q, k.transpose(0, 1), v.transpose(0, 1), mask)


def attention(layout: Layout, rows: Tensor) -> Attend:
    """The fast `Attend` of the layout's device; arguments as in `DenseAttention`."""
    return FlexAttention(layout, rows) if layout.documents.is_cuda else ChunkedAttention(layout, rows)


@dataclass(frozen=True, eq=False)
class _Chunk:
    """Queries of neighbouring columns, and the keys that any of them sees."""

    queries: slice
    context: slice
    """Columns of the context."""
    own: slice
    """Columns of the queries' own stream; empty for the context itself."""
    mask: Tensor | None
    """[B, n, context + own] bool; None: all of them are seen."""
    biases: dict[tuple[int, int, torch.dtype], Tensor] = field(default_factory=dict[Any, Tensor])
    """What `bias` has made."""

    def bias(self, streams: int, groups: int, dtype: torch.dtype) -> Tensor | None:
        """[streams * B, 1, groups * n, keys], 0 where a query sees a key and -inf elsewhere; made once for all layers.

        With a mask of booleans attention takes twice as long on a CPU: it makes such a bias from it, in every layer.
        """
        if self.mask is None:
            return None
        key = (streams, groups, dtype)
        if key not in self.biases:
            hidden = ~self.mask.repeat(streams, groups, 1)[:, None]
            self.biases[key] = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, -torch.inf)
        return self.biases[key]


class ChunkedAttention:
    """`Attend` for a CPU: queries go in chunks of columns, each against only the keys that its mask does not rule out.

    No mask of both streams is built, causal and block-causal halves are not computed, and all noisy streams share the
    context's keys and values. Masks are made when they are first needed: a pass that is only split costs none.
    Arguments as in `DenseAttention`.
    """

    def __init__(self, layout: Layout, rows: Tensor, *, chunk: int = CHUNK) -> None:
        self.layout = layout
        self.rows = rows
        self.shape = (layout.streams, *layout.documents.shape)
        self.spans = [slice(start, min(start + chunk, self.shape[2])) for start in range(0, self.shape[2], chunk)]
        in_context = rows < layout.documents.numel()
        self.wanted = (bool(in_context.any()), not bool(in_context.all()))

    @cached_property
    def context(self) -> list[_Chunk]:
        return [_chunk(self.layout, 0, span) for span in self.spans]

    @cached_property
    def noisy(self) -> list[_Chunk]:
        return [_chunk(self.layout, 1, span) for span in self.spans] if self.layout.streams > 1 else []

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
        if q.shape[0] == k.shape[0]:
            return self._attend(q, k, v, (True, bool(self.noisy)))
        return self._attend(_placed(q, self.rows, k.shape[0]), k, v, self.wanted)[self.rows]

    def phases(self) -> tuple[Attend, Attend]:
        """The same attention in two forwards: of the context alone, whose keys and values are kept; then of the noisy
        streams alone. Of the context no row is wanted."""
        size = self.shape[1] * self.shape[2]
        rows = self.rows[self.rows >= size] - size
        kept: list[tuple[Tensor, Tensor]] = []

        def context(layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
            kept.append((k, v))
            if not q.shape[0]:
                return q
            q, k, v = (x.unflatten(0, (1, *self.shape[1:])) for x in (q, k, v))
            return _by_chunks(q, k, v, slice(0, 1), self.context).flatten(0, 2)

        def noisy(layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
            wanted = q.shape[0] != k.shape[0]
            if wanted:
                q = _placed(q, rows, k.shape[0])
            all_k, all_v = (torch.cat(pair).unflatten(0, self.shape) for pair in zip(kept[layer], (k, v), strict=True))
            q = q.unflatten(0, (self.shape[0] - 1, *self.shape[1:]))
            mixed = _by_chunks(q, all_k, all_v, slice(1, None), self.noisy).flatten(0, 2)
            return mixed[rows] if wanted else mixed

        return context, noisy

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, wanted: tuple[bool, bool]) -> Tensor:
        """[T, H, D] each -> [T, H, D]; `wanted`: whether the context's and the noisy streams' rows are read."""
        q, k, v = (x.unflatten(0, self.shape) for x in (q, k, v))  # [S, B, L, H, D]
        parts: list[Tensor] = []
        for streams, chunks, read in ((slice(0, 1), self.context, wanted[0]), (slice(1, None), self.noisy, wanted[1])):
            part = q[streams]
            parts.append(_by_chunks(part, k, v, streams, chunks) if read and chunks else torch.zeros_like(part))
        return torch.cat(parts).flatten(0, 2)


def _placed(q: Tensor, rows: Tensor, size: int) -> Tensor:
    """Chunks are of columns: the wanted rows [R, H, D] take their places among `size` rows, the others nobody reads."""
    return q.new_zeros(size, *q.shape[1:]).index_copy(0, rows, q)


def _chunk(layout: Layout, stream: int, span: slice) -> _Chunk:
    """The chunk of `span` in the context (stream 0) or in any noisy stream (1)."""
    batch, length = layout.documents.shape
    columns = torch.arange(length, device=layout.documents.device)
    row = torch.arange(batch, device=columns.device)[:, None, None]
    query = Place(stream, columns[span, None])
    context = sees(layout, row, query, Place(0, columns))  # [B, n, L]
    own = sees(layout, row, query, Place(stream, columns)) if stream else torch.zeros_like(context)
    context_span, own_span = _extent(context), _extent(own)
    mask = torch.cat((context[..., context_span], own[..., own_span]), -1)
    return _Chunk(span, context_span, own_span, None if mask.all() else mask)


def _extent(seen: Tensor) -> slice:
    """The columns from the first to the last one that any query sees; seen [B, n, L]."""
    columns = seen.any(0).any(0).nonzero().flatten().tolist()
    return slice(columns[0], columns[-1] + 1) if columns else slice(0, 0)


def _by_chunks(q: Tensor, k: Tensor, v: Tensor, streams: slice, chunks: list[_Chunk]) -> Tensor:
    """Queries of some streams [S', B, L, H, D] against keys and values [S, B, L, Hkv, D]; -> [S', B, L, H, D]."""
    parts = zip(
        _spans(q, [chunk.queries for chunk in chunks]),
        _seen(k, streams, chunks),
        _seen(v, streams, chunks),
        chunks,
        strict=True,
    )
    return torch.cat([_grouped(queries, keys, values, chunk) for queries, keys, values, chunk in parts], 2)


def _seen(x: Tensor, streams: slice, chunks: list[_Chunk]) -> list[Tensor]:
    """[S, B, L, Hkv, D] -> [S', B, keys, Hkv, D] for every chunk: what it sees of the context, then of its stream."""
    own = x[streams]
    context = [
        part.expand(own.shape[0], *part.shape[1:]) for part in _spans(x[:1], [chunk.context for chunk in chunks])
    ]
    if all(chunk.own.stop == chunk.own.start for chunk in chunks):
        return context
    return [torch.cat(both, 2) for both in zip(context, _spans(own, [chunk.own for chunk in chunks]), strict=True)]


def _spans(x: Tensor, spans: list[slice]) -> tuple[Tensor, ...]:
    """Spans of columns of x [S, B, L, H, D], which may overlap."""
    return _Spans.apply(x, spans)


class _Spans(torch.autograd.Function):
    """Slices whose gradients are added up in one buffer; autograd's own would each be padded to the whole length."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, spans: list[slice]) -> tuple[Tensor, ...]:
        ctx.spans, ctx.shape = spans, x.shape
        return tuple(x[:, :, span] for span in spans)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        total = grad_outputs[0].new_zeros(ctx.shape)
        for span, gradient in zip(ctx.spans, grad_outputs, strict=True):
            total[:, :, span] += gradient
        return total, None


def _grouped(q: Tensor, k: Tensor, v: Tensor, chunk: _Chunk) -> Tensor:
    """Grouped-query attention of every stream and row by itself: a group's queries are stacked along the columns.

    Args:
        q: [S, B, n, H, D], k, v: [S, B, keys, Hkv, D].
    Returns:
        [S, B, n, H, D]
    """
    streams, batch, columns, heads, width = q.shape
    groups = heads // k.shape[3]
    stacked = (
        q.unflatten(3, (-1, groups)).permute(0, 1, 3, 4, 2, 5).reshape(streams * batch, -1, groups * columns, width)
    )
    k, v = (x.flatten(0, 1).transpose(1, 2) for x in (k, v))  # [S * B, Hkv, keys, D]
    bias = chunk.bias(streams, groups, torch.promote_types(q.dtype, torch.float32))
    mixed = F.scaled_dot_product_attention(stacked, k, v, attn_mask=bias)
    return mixed.view(streams, batch, -1, groups, columns, width).permute(0, 1, 4, 2, 3, 5).reshape(q.shape)


class FlexAttention:
    """`Attend` for a GPU: FlexAttention over block masks made from the same rule. Arguments as in `DenseAttention`."""

    def __init__(self, layout: Layout, rows: Tensor) -> None:
        from torch.nn.attention.flex_attention import create_block_mask

        self.rows = rows
        self.shape = (layout.streams, *layout.documents.shape)
        batch, tokens = self.shape[1], layout.num_tokens // self.shape[1]
        self.mask: Any = create_block_mask(
            flex_rule(layout), batch, None, tokens, tokens, device=str(layout.documents.device)
        )

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
        if q.shape[0] == k.shape[0]:
            return self._attend(q, k, v)
        return self._attend(_placed(q, self.rows, k.shape[0]), k, v)[self.rows]

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        per_row = [x.unflatten(0, self.shape).transpose(0, 1).flatten(1, 2).transpose(1, 2) for x in (q, k, v)]
        mixed = _compiled()(*per_row, block_mask=self.mask, enable_gqa=True)  # [B, H, S * L, D]
        return mixed.transpose(1, 2).unflatten(1, (self.shape[0], -1)).transpose(0, 1).flatten(0, 2)


def flex_rule(layout: Layout) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The rule as FlexAttention asks for it: by row of the batch and by token of the row's streams, laid end to end."""
    length = layout.documents.shape[1]

    def rule(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return sees(layout, row, Place(query // length, query % length), Place(key // length, key % length))

    return rule


@cache
def _compiled() -> Callable[..., Tensor]:
    """FlexAttention is only fast when compiled; once for the process, at its first use."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)
