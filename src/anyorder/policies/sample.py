"""From rows of logits to proposed ids: temperature, top-k and top-p as the families define them."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor

FilterOrder = Literal["top_p_first", "top_k_first", "before_temperature"]
Nucleus = Literal["through", "below"]
GROUP = 128
"""Columns that `best` reduces at once; from 64 to 256 it made no difference."""


def best(logits: Tensor) -> Tensor:
    """The likeliest id of every row, the lowest among equals: [n, V] -> [n] int64, the same as `argmax`.

    PyTorch's CPU argmax is scalar code; a vectorised maximum over groups, then argmax over the groups and inside the
    best one, is up to eight times as fast at a vocabulary's width.
    """
    if logits.device.type != "cpu" or logits.shape[-1] % GROUP or not logits.numel():
        return logits.argmax(-1)
    groups = logits.unflatten(-1, (-1, GROUP))  # [n, V / GROUP, GROUP]
    group = groups.amax(-1).argmax(-1, keepdim=True)  # [n, 1]
    inside = groups.gather(1, group.unsqueeze(-1).expand(-1, 1, GROUP)).argmax(-1)
    return (group * GROUP + inside).squeeze(-1)


def filter_logits(
    logits: Tensor,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    order: FilterOrder = "top_k_first",
    nucleus: Nucleus = "through",
) -> Tensor:
    """Scale by the temperature, then set the logits outside top-k and top-p to -inf.

    Args:
        logits: [n, V] float.
        temperature: 0 leaves the scale alone (greedy decoding; the filters still shape the confidence).
        top_k: keep the k best; None keeps all.
        top_p: keep the best tokens until their probability reaches p.
        order: which filter sees the other's result: Dream applies top-p first, SDAR top-k first; WeDLM top-k, top-p,
            and the temperature last.
        nucleus: the token that crosses p is kept ("through"), or only the best if it crosses it ("below"; BD3-LM).
    Returns:
        [n, V] float; the argument itself when nothing is to be done.
    """
    if order == "before_temperature":
        kept = filter_logits(logits, top_k=top_k, top_p=top_p, order="top_k_first", nucleus=nucleus)
        return filter_logits(kept, temperature=temperature)
    if temperature > 0 and temperature != 1:
        logits = logits / temperature
    filters = [(partial(_top_p, nucleus=nucleus), top_p), (_top_k, top_k)]
    for apply, value in filters if order == "top_p_first" else reversed(filters):
        if value is not None:
            logits = apply(logits, value)
    return logits


def _top_k(logits: Tensor, k: float) -> Tensor:
    if k >= logits.shape[-1]:
        return logits
    weakest = logits.topk(int(k), dim=-1).values[..., -1:]
    return logits.masked_fill(logits < weakest, -torch.inf)


def _top_p(logits: Tensor, p: float, *, nucleus: Nucleus) -> Tensor:
    if p >= 1:
        return logits
    ordered, order = logits.sort(dim=-1, descending=True)
    cumulated = ordered.softmax(-1).cumsum(-1)
    drop = torch.zeros_like(cumulated, dtype=torch.bool)
    drop[..., 1:] = cumulated[..., :-1] > p if nucleus == "through" else cumulated[..., 1:] > p
    return logits.masked_fill(torch.zeros_like(drop).scatter_(-1, order, drop), -torch.inf)
