"""The loss of the output head. Logits are the largest tensors of a small model: they are made once, for a few rows at a
time, and their gradient is taken while they are there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

LOGIT_ROWS = 1024
"""Rows whose logits exist at a time: 0.2 GB in float32 at a vocabulary of 49k."""

Head = Callable[[Tensor], Tensor]
"""[R, hidden] -> logits [R, V]."""


def head_loss(head: Head, hidden: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Σ weights · -log p(targets), a scalar in the dtype of the logits.

    Its backward pass only scales gradients that are there already; a second derivative does not exist.

    Args:
        head: its parameters get gradients, whoever owns them.
        hidden: [R, hidden], R > 0.
        targets: [R] int64.
        weights: [R] float.
    """
    entropies: list[Tensor] = []
    gradients: list[Tensor] = []
    for_parameters: dict[Tensor, Tensor] = {}
    for part, wanted, weight in zip(*(x.split(LOGIT_ROWS) for x in (hidden, targets, weights)), strict=True):
        part = part.detach().requires_grad_()
        with torch.enable_grad():
            logits = head(part)
        parameters = _leaves(logits) - {part}
        entropy, gradient = _cross_entropy(logits.detach(), wanted, weight)
        found, *others = torch.autograd.grad(logits, [part, *parameters], gradient)
        entropies.append(entropy)
        gradients.append(found)
        for parameter, other in zip(parameters, others, strict=True):
            _add(for_parameters, parameter, other)
    entropy = torch.cat(entropies)
    value = (weights * entropy).sum().to(entropy.dtype)
    known = [torch.cat(gradients), *(total.to(p.dtype) for p, total in for_parameters.items())]
    return _Known.apply(value, known, hidden, *for_parameters)


def _cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """-log p(target) [R], and the gradient [R, V] of their weighted sum: weight · (p - onehot)."""
    logs = logits.log_softmax(-1)
    entropy = -logs.gather(-1, targets[:, None])[:, 0]
    gradient = logs.exp_()
    gradient.scatter_add_(-1, targets[:, None], gradient.new_full((len(targets), 1), -1.0))
    return entropy, gradient.mul_(weights[:, None].to(gradient.dtype))


def _leaves(output: Tensor) -> set[Tensor]:
    """The tensors that require a gradient and that `output` was computed from."""
    found: set[Tensor] = set()
    seen, waiting = set[Any](), [output.grad_fn]
    while waiting:
        node: Any = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):  # where gradients are accumulated
            found.add(node.variable)
        waiting += [before for before, _ in node.next_functions]
    return found


def _add(totals: dict[Tensor, Tensor], parameter: Tensor, gradient: Tensor) -> None:
    """Sums of half-precision gradients are kept in float32."""
    if parameter in totals:
        totals[parameter] += gradient
    else:
        totals[parameter] = gradient.to(torch.promote_types(gradient.dtype, torch.float32))


class _Known(torch.autograd.Function):
    """A value whose gradients are known."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor], *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*gradients)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        return (None, None, *(gradient * grad_outputs[0] for gradient in ctx.saved_tensors))
