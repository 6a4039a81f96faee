"""A decoder on a scripted model: what it reads in every column is a function of the canvas that it is fed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from anyorder.decoders.choose import Chooser, Sampling
from anyorder.decoders.edit import EditingDecoder
from anyorder.events import Event, Revised
from anyorder.policies.catalog import POLICIES
from anyorder.policies.published import Knobs
from anyorder.window import Window

MASK, STOP, VOCABULARY = 9, 8, 10
Script = Callable[[list[int]], list[tuple[int, float]]]
"""The canvas as it is fed -> for every column the best token and its probability."""


def rows(beliefs: list[tuple[int, float]]) -> Tensor:
    """[n, V] logits of those beliefs; the rest is shared among the other tokens."""
    table = torch.tensor([[(1 - p) / (VOCABULARY - 2)] * VOCABULARY for _, p in beliefs], dtype=torch.float64)
    for row, (token, p) in enumerate(beliefs):
        table[row, token] = p
    table[:, MASK] = 0
    return table.clamp_min(1e-30).log()


def chooser() -> Chooser:
    """Commits what is surer than 0.5."""
    knobs = Knobs(threshold=0.5, strict=True)
    return Chooser(policy=POLICIES["threshold"], sampling=Sampling(mask_id=MASK), knobs=knobs)


def drive(decoder: EditingDecoder, script: Script) -> tuple[list[Event], list[Window]]:
    """All events and windows."""
    events, windows = decoder.start(), list[Window]()
    for _ in range(80):
        if decoder.finished:
            return events, windows
        (window,) = decoder.plan()
        windows.append(window)
        beliefs = script([*decoder.canvas.ids[: window.start].tolist(), *window.ids.tolist()])
        events += decoder.apply(decoder.decide([rows([beliefs[window.start + row] for row in window.rows.tolist()])]))
    raise AssertionError("does not come to an end")


def revisions(events: list[Event]) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """(pass, slots, ids) of everything that was replaced."""
    return [(e.pass_index, e.slots, e.ids) for e in events if isinstance(e, Revised)]
