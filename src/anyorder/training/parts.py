"""A pass over a whole batch, split into passes over some of its rows.

An objective is asked once per step, for the whole batch: its random numbers and its normalisation cannot depend on how
many processes or micro-batches share the work, and the losses of the parts add up to the loss of the whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from anyorder.draws import wide_dtype
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
    ids, positions = (tokens.view(streams)[:, own].flatten() for tokens in (p.ids, p.positions))
    asked, targets, weights = _asked(p, streams[1], own)
    if not len(asked):  # every process needs all gradients, zero or not: the last token is asked, and counts nothing
        asked, targets, weights = asked.new_tensor([len(ids) - 1]), targets.new_zeros(1), weights.new_zeros(1)
    asked = _to(asked, device)
    return replace(
        p,
        ids=_to(ids, device),
        positions=_to(positions, device),
        attend=attention(_rows_of(layout, rows, device), asked),
        rows=asked,
        targets=_to(targets, device),
        weights=_to(weights, device),
        context=p.context // batch * (rows.stop - rows.start),
    )


def layout_of(p: TrainingPass) -> Layout:
    """Documents, blocks and streams of a pass."""
    assert isinstance(p.attend, KnowsLayout), "a pass can be split if its attention is one of `training.attention`"
    return p.attend.layout


def _asked(p: TrainingPass, size: int, own: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, targets and weights of the tokens `own` of every stream of `size` tokens."""
    stream, place = p.rows // size, p.rows % size
    kept = ((place >= own.start) & (place < own.stop)).nonzero().flatten()
    return (stream * (own.stop - own.start) + place - own.start)[kept], p.targets[kept], p.weights[kept]


def _rows_of(layout: Layout, rows: slice, device: torch.device | None) -> Layout:
    return replace(layout, documents=_to(layout.documents[rows], device), blocks=_to(layout.blocks[rows], device))


def _to(value: Tensor, device: torch.device | None) -> Tensor:
    """On a device, without waiting for what it is doing."""
    if device is None:
        return value
    if value.dtype == torch.float64:
        value = value.to(wide_dtype(device))
    if device.type == "cuda" and not value.is_cuda:
        return value.pin_memory().to(device, non_blocking=True)
    return value.to(device)
