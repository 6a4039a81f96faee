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


def part(p: TrainingPass, rows: slice, device: torch.device | str | None = None) -> TrainingPass:
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
    chosen = (stream * (own.stop - own.start) + place - own.start)[kept].to(device)
    return TrainingPass(
        ids=_columns(p.ids, streams, own).to(device),
        positions=_columns(p.positions, streams, own).to(device),
        attend=attention(_rows_of(layout, rows, device), chosen),
        rows=chosen,
        targets=p.targets[kept].to(device),
        weights=p.weights[kept].to(device),
        context=p.context // batch * (rows.stop - rows.start),
    )


def layout_of(p: TrainingPass) -> Layout:
    """Documents, blocks and streams of a pass."""
    assert isinstance(p.attend, KnowsLayout), "a pass can be split if its attention is one of `training.attention`"
    return p.attend.layout


def _columns(tokens: Tensor, streams: tuple[int, int], own: slice) -> Tensor:
    return tokens.view(streams)[:, own].flatten()


def _rows_of(layout: Layout, rows: slice, device: torch.device | str | None) -> Layout:
    return replace(layout, documents=layout.documents[rows].to(device), blocks=layout.blocks[rows].to(device))
