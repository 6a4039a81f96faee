"""The one place where a model meets a cache: pack the windows of many requests, run one forward, hand out the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.cache.storage import KVStorage
from anyorder.models.attention import sdpa, visible
from anyorder.models.transformer import Transformer
from anyorder.window import Window


class Runner:
    """Runs windows through one network.

    Tokens of all windows are packed into one row, so requests of different lengths and families' masks share every
    matrix product; attention runs per window, so a request's numbers do not depend on its neighbours.
    """

    def __init__(self, network: Transformer) -> None:
        self.network = network

    def storage(self, capacity: int) -> KVStorage:
        """Keys and values for one request of up to `capacity` columns."""
        config = self.network.config
        return KVStorage(
            num_layers=config.num_layers,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
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
        ids = torch.cat([window.ids for window in windows]).to(device, non_blocking=True)
        positions = torch.cat([torch.arange(window.start, window.end) for window in windows])
        parts = _parts(windows, storages, device)
        rows = torch.cat([window.rows + part.offset for window, part in zip(windows, parts, strict=True)])
        counts = [window.rows.shape[0] for window in windows]
        attend = _PackedAttention(parts, last_layer=self.network.config.num_layers - 1)
        hidden = self.network(ids, positions.to(device, non_blocking=True), attend, rows.to(device, non_blocking=True))
        return list(self.network.head(hidden).split(counts))


@dataclass(frozen=True, slots=True)
class _Part:
    """One window's place in the packed row."""

    offset: int  # first packed token
    length: int
    row_offset: int  # first packed wanted row
    row_count: int
    start: int
    visible: int
    storage: KVStorage | None
    mask: Tensor | None  # [T, visible] bool, None: everything visible is seen
    row_mask: Tensor | None  # [R, visible] bool, for the last layer's wanted rows


def _parts(windows: Sequence[Window], storages: Sequence[KVStorage | None], device: torch.device) -> list[_Part]:
    parts: list[_Part] = []
    offset = row_offset = 0
    for window, storage in zip(windows, storages, strict=True):
        mask = attention_mask(window)
        parts.append(
            _Part(
                offset=offset,
                length=window.ids.shape[0],
                row_offset=row_offset,
                row_count=window.rows.shape[0],
                start=window.start,
                visible=window.visible,
                storage=storage if window.stores else None,
                mask=None if mask is None else mask.to(device, non_blocking=True),
                row_mask=None if mask is None else mask[window.rows].to(device, non_blocking=True),
            )
        )
        offset += window.ids.shape[0]
        row_offset += window.rows.shape[0]
    return parts


def attention_mask(window: Window) -> Tensor | None:
    """[T, visible] bool, True where a fed token sees a column; None if every token sees every visible column."""
    length = window.block_length if window.attention == "block" else 1
    if window.attention != "bidirectional" and window.start // length == (window.visible - 1) // length:
        return None  # all fed tokens are in the last visible block
    fed, columns = torch.arange(window.start, window.end), torch.arange(window.visible)
    return visible(fed, columns, window.attention, window.block_length)


class _PackedAttention:
    """The network's `attend`: splits the packed row by window, reads and writes storage, attends per window."""

    def __init__(self, parts: list[_Part], *, last_layer: int) -> None:
        self.parts = parts
        self.last_layer = last_layer

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows_only = layer == self.last_layer
        outputs = [self._attend(part, layer, q, k, v, rows_only) for part in self.parts]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _attend(self, part: _Part, layer: int, q: Tensor, k: Tensor, v: Tensor, rows_only: bool) -> Tensor:
        k, v = k[part.offset : part.offset + part.length], v[part.offset : part.offset + part.length]
        if part.storage is None:
            k, v = k.transpose(0, 1), v.transpose(0, 1)
        else:
            k, v = part.storage.update(layer, part.start, part.visible, k, v)
        if rows_only:
            if not part.row_count:
                return q[:0]
            return sdpa(q[part.row_offset : part.row_offset + part.row_count], k, v, part.row_mask)
        return sdpa(q[part.offset : part.offset + part.length], k, v, part.mask)
