"""A pass over a whole batch, split into passes over some of its rows.

An objective is asked once per step, for the whole batch: its random numbers and its normalisation cannot depend on how
many processes or micro-batches share the work, and the losses of the parts add up to the loss of the whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from anyorder.training.attention import Layout, attention
from anyorder.training.passes import TrainingPass


@runtime_checkable
class KnowsLayout(Protocol):
    """An `Attend` that says what it was made from, as all of `training.attention` do."""

    layout: Layout


def part(p: TrainingPass, rows: slice, device: torch.device | None = None) -> TrainingPass:
    """The same pass for rows start .. stop - 1 of the batch, on a device.

    Args:
        rows: of the batch; start and stop must be given.
        device: None: where the pass is.
    """
    layout = layout_of(p)
    batch, length = layout.documents.shape
    own = slice(rows.start * length, rows.stop * length)
    streams = (layout.streams, batch * length)
    stream, place = p.rows // streams[1], p.rows % streams[1]
    kept = ((place >= own.start) & (place < own.stop)).nonzero().flatten()
    chosen = (stream * (own.stop - own.start) + place - own.start)[kept]
    chosen = _to(chosen, device)
    return TrainingPass(
        ids=_to(_columns(p.ids, streams, own), device),
        positions=_to(_columns(p.positions, streams, own), device),
        attend=attention(_rows_of(layout, rows, device), chosen),
        rows=chosen,
        targets=_to(p.targets[kept], device),
        weights=_to(p.weights[kept], device),
        context=p.context // batch * (rows.stop - rows.start),
        conditioned=p.conditioned,
    )


def layout_of(p: TrainingPass) -> Layout:
    """Documents, blocks and streams of a pass."""
    assert isinstance(p.attend, KnowsLayout), "a pass can be split if its attention is one of `training.attention`"
    return p.attend.layout


def _columns(tokens: Tensor, streams: tuple[int, int], own: slice) -> Tensor:
    return tokens.view(streams)[:, own].flatten()


def _rows_of(layout: Layout, rows: slice, device: torch.device | None) -> Layout:
    return replace(layout, documents=_to(layout.documents[rows], device), blocks=_to(layout.blocks[rows], device))


def _to(value: Tensor, device: torch.device | None) -> Tensor:
    """On a device, without waiting for what it is doing."""
    if device is not None and device.type == "cuda" and not value.is_cuda:
        return value.pin_memory().to(device, non_blocking=True)
    return value.to(device)
