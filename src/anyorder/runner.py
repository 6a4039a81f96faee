"""The one place where a model meets a cache: pack the windows of many requests, run one forward, hand out the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from anyorder.cache.storage import KVStorage
from anyorder.models.adapter import Adapter
from anyorder.models.attention import sdpa, stacked_mask, visible
from anyorder.models.gemma.network import DiffusionGemma, Fed
from anyorder.models.moe import Blocks
from anyorder.models.transformer import Changes, Transformer
from anyorder.pictures import Picture
from anyorder.window import Window


class Runner:
    """Runs windows through one network.

    Args:
        network: computes the passes.
        adapter: on for the tokens of windows that ask for it.

    Tokens of all windows are packed into one row, so requests of different lengths and families' masks share every
    matrix product; attention runs per window, so a request's numbers do not depend on its neighbours.
    """

    def __init__(self, network: Transformer, adapter: Adapter | None = None) -> None:
        self.network = network
        self.adapter = adapter
        self._vectors: WeakKeyDictionary[Picture, Tensor] = WeakKeyDictionary()  # as long as somebody holds the picture

    def storage(self, capacity: int) -> KVStorage:
        """Keys and values for one request of up to `capacity` columns."""
        config = self.network.config
        return KVStorage(
            shapes=[config.kv_shape(layer) for layer in range(config.num_layers)],
            capacity=capacity,
            dtype=self.network.dtype,
            device=self.network.device,
        )

    def forward(self, windows: Sequence[Window], storages: Sequence[KVStorage | None]) -> list[Tensor]:
        """One forward pass for all windows.

        Args:
            windows: what each request wants computed.
            storages: aligned with `windows`; None for a window that stores nothing.
        Returns:
            for each window its wanted rows, [R, V] logits in the order of `window.rows`.
        """
        device = self.network.device
        _move(windows, storages)
        ids = torch.cat([window.ids for window in windows]).to(device, non_blocking=True)
        positions = [positions_of(window) for window in windows]
        rows = torch.cat([window.rows + offset for window, offset in zip(windows, _offsets(windows), strict=True)])
        attend = _PackedAttention(windows, storages, self.network)
        hidden = self.network(
            ids,
            torch.cat(positions).to(device, non_blocking=True),
            attend,
            rows.to(device, non_blocking=True),
            self._adapted(windows),
            *self._shared(positions),
        )
        return list(self.network.head(hidden).split_with_sizes(attend.counts))

    def _shared(self, positions: Sequence[Tensor]) -> tuple[Blocks, ...]:
        """The blocks whose tokens share experts; () if every token of this network chooses its own."""
        moe = self.network.config.moe
        if moe is None or moe.block_experts is None:
            return ()
        return (Blocks.of(positions, moe.block_length, self.network.device),)

    def _adapted(self, windows: Sequence[Window]) -> Changes | None:
        """The adapter for one pass, or its canvases and pictures; None if there is none, or no window asks for it."""
        if isinstance(self.network, DiffusionGemma):
            return self._fed(self.network, windows)
        if self.adapter is None or all(window.adapted is None for window in windows):
            return None
        on = torch.cat([adapted_tokens(window) for window in windows])
        return self.adapter.on(None if on.all() else on.to(self.network.device, non_blocking=True))

    def _fed(self, network: DiffusionGemma, windows: Sequence[Window]) -> Fed | None:
        """Which tokens are a canvas or a picture, and what is fed for them."""
        softs = [(w.adapted + at, w.soft) for w, at in _placed(windows) if w.adapted is not None and w.soft is not None]
        pictures = [
            (at + first - w.start, self._picture(network, placed.picture)[first - placed.start : w.end - placed.start])
            for w, at in _placed(windows)
            for placed in w.pictures
            for first in (max(placed.start, w.start),)
        ]
        canvas = any(window.adapted is not None for window in windows)
        if not canvas and not pictures:
            return None
        on = torch.cat([adapted_tokens(window) for window in windows]) if canvas else None
        return network.fed(on if on is None else on.to(network.device, non_blocking=True), softs, pictures)

    def _picture(self, network: DiffusionGemma, picture: Picture) -> Tensor:
        """[length, hidden], what the vision tower makes of a picture, once."""
        if picture not in self._vectors:
            self._vectors[picture] = network.read(picture)
        return self._vectors[picture]


def _placed(windows: Sequence[Window]) -> Iterator[tuple[Window, int]]:
    """Each window with the first packed token of it."""
    return zip(windows, _offsets(windows), strict=True)


def adapted_tokens(window: Window) -> Tensor:
    """[T] bool, the fed tokens that the adapter is on for."""
    first = window.ids.shape[0] if window.adapted is None else window.adapted
    return torch.arange(window.ids.shape[0]) >= first


def _move(windows: Sequence[Window], storages: Sequence[KVStorage | None]) -> None:
    """Bring what earlier passes stored elsewhere to its columns."""
    for window, storage in zip(windows, storages, strict=True):
        if window.moved is not None and storage is not None:
            storage.move(window.moved, window.start - window.moved.shape[0])


def positions_of(window: Window) -> Tensor:
    """[T] int64, the RoPE position of every fed token."""
    positions = torch.arange(window.start, window.end)
    if window.branches is not None:
        positions[-window.branches.positions.shape[0] :] = window.branches.positions
    return positions


def _offsets(windows: Sequence[Window]) -> list[int]:
    """First packed token of each window."""
    return list(accumulate((window.ids.shape[0] for window in windows[:-1]), initial=0))


def attention_mask(window: Window, sliding: int | None = None) -> Tensor | None:
    """Which columns each fed token sees.

    Args:
        sliding: columns that a token may look back on, itself included; tokens from `adapted` on look back from the
            first of them. None: all. The columns of a picture see all of it.
    Returns:
        [T, visible] bool; None if every token sees every visible column.
    """
    masks = [_by_order(window), _near(window, sliding), _inside(window)]
    mask = reduce(lambda a, b: b if a is None else a if b is None else a & b, masks)
    if mask is not None:
        for placed in window.pictures:  # each is seen whole by itself, however far
            rows = slice(max(placed.start - window.start, 0), placed.end - window.start)
            mask[rows, placed.start : placed.end] = True
    return mask


def _by_order(window: Window) -> Tensor | None:
    if window.adapted == 0:
        return None
    length = window.block_length if window.attention == "block" else 1
    if window.attention != "bidirectional" and window.start // length == (window.visible - 1) // length:
        return None  # all fed tokens are in the last visible block
    fed, columns = torch.arange(window.start, window.end), torch.arange(window.visible)
    mask = visible(fed, columns, window.attention, window.block_length)
    if mask is not None and window.adapted is not None:
        mask = mask | adapted_tokens(window)[:, None]
    if mask is not None and window.branches is not None:
        sees = window.branches.sees
        mask[-len(sees) :, -len(sees) :] = sees
    return mask


def _near(window: Window, sliding: int | None) -> Tensor | None:
    """The columns that a sliding layer still sees."""
    if sliding is None or window.visible <= sliding:
        return None
    seen_from = positions_of(window)
    if window.adapted is not None:
        seen_from[window.adapted :] = window.start + window.adapted
    return torch.arange(window.visible) > (seen_from - sliding)[:, None]


def _inside(window: Window) -> Tensor | None:
    """The columns that lie within the context of each token's block."""
    if window.context is None or window.visible <= window.context:
        return None
    ends = (torch.arange(window.start, window.end) // window.block_length + 1) * window.block_length
    return torch.arange(window.visible) >= (ends - window.context)[:, None]


_Kind = tuple[int | None, int]
"""Layers that see the same: (sliding window, queries per key head)."""


@dataclass(frozen=True, slots=True)
class _View:
    """What the tokens of one window see in the layers of one kind."""

    first: int  # the first column that anyone sees
    mask: Tensor | None  # [G * T, visible - first] from `stacked_mask`; None: all of that is seen
    row_mask: Tensor | None  # [G * R, visible - first], for the last layer's wanted rows


@dataclass(frozen=True, slots=True)
class _Part:
    """What attention must know of one window."""

    start: int
    visible: int
    storage: KVStorage | None
    views: dict[_Kind, _View]


def _part(window: Window, storage: KVStorage | None, network: Transformer, kinds: set[_Kind]) -> _Part:
    stored = storage if window.stores else None
    views = {kind: _view(window, kind, network, None if stored is not None else window.start) for kind in kinds}
    return _Part(window.start, window.visible, stored, views)


def _view(window: Window, kind: _Kind, network: Transformer, first: int | None) -> _View:
    """`first`: column of the first key there is; None: all of them are stored."""
    sliding, groups = kind
    mask = attention_mask(window, sliding)
    if mask is None:
        return _View(first or 0, None, None)
    if first is None:
        first = int(mask.any(0).nonzero()[0])
    mask, row_mask = (
        stacked_mask(m, groups, network.dtype).to(network.device, non_blocking=True)
        for m in (mask[:, first:], mask[window.rows, first:])
    )
    return _View(first, mask, row_mask)


class _PackedAttention:
    """The network's `attend`: splits the packed row by window, reads and writes storage, attends per window."""

    def __init__(
        self,
        windows: Sequence[Window],
        storages: Sequence[KVStorage | None],
        network: Transformer,
    ) -> None:
        config = network.config
        self.kinds: list[_Kind] = [
            (config.sliding_window(layer), config.num_heads // config.kv_shape(layer)[0])
            for layer in range(config.num_layers)
        ]
        kinds = set(self.kinds)
        self.parts = [_part(window, storage, network, kinds) for window, storage in zip(windows, storages, strict=True)]
        self.lengths = [window.ids.shape[0] for window in windows]
        self.counts = [window.rows.shape[0] for window in windows]
        self.last_layer = -1 if config.shares_experts else config.num_layers - 1

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if len(self.parts) == 1:
            return self._attend(self.parts[0], layer, q, k, v)
        own = zip(
            self.parts,
            q.split_with_sizes(self.counts if layer == self.last_layer else self.lengths),
            k.split_with_sizes(self.lengths),
            v.split_with_sizes(self.lengths),
            strict=True,
        )
        return torch.cat([self._attend(part, layer, own_q, own_k, own_v) for part, own_q, own_k, own_v in own])

    def _attend(self, part: _Part, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        view = part.views[self.kinds[layer]]
        if part.storage is None:
            k, v = k.transpose(0, 1), v.transpose(0, 1)
        else:
            k, v = part.storage.update(layer, part.start, part.visible, k, v)
            if view.first:
                k, v = k[:, view.first :], v[:, view.first :]
        if not q.shape[0]:
            return q
        return sdpa(q, k, v, view.row_mask if layer == self.last_layer else view.mask)
