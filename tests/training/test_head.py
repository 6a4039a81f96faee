"""The head's loss is the plain one, with all gradients, whatever the number of rows at a time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.training import head
from anyorder.training.head import head_loss

ROWS, WIDTH, VOCABULARY = 7, 5, 11


def case(dtype: torch.dtype = torch.float64) -> tuple[Tensor, nn.Parameter, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(ROWS, WIDTH, generator=generator).to(dtype).requires_grad_()
    weight = nn.Parameter(torch.randn(VOCABULARY, WIDTH, generator=generator).to(dtype))
    targets = torch.randint(0, VOCABULARY, (ROWS,), generator=generator)
    return hidden, weight, targets, torch.rand(ROWS, generator=generator, dtype=torch.float64)


def plain(hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    return (weights * F.cross_entropy(F.linear(hidden, weight), targets, reduction="none")).sum()


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_loss_and_gradients_are_the_plain_ones(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "LOGIT_ROWS", rows)
    hidden, weight, targets, weights = case()
    got = head_loss(lambda h: F.linear(h, weight), hidden, targets, weights)
    want = plain(hidden, weight, targets, weights)
    torch.testing.assert_close(got, want)
    # scaled, as by a trainer with several processes
    for found, right in zip(
        torch.autograd.grad(3 * got, [hidden, weight]), torch.autograd.grad(3 * want, [hidden, weight]), strict=True
    ):
        torch.testing.assert_close(found, right)


def test_a_frozen_head_gets_no_gradient() -> None:
    hidden, weight, targets, weights = case()
    weight.requires_grad_(False)
    head_loss(lambda h: F.linear(h, weight), hidden, targets, weights).backward()
    assert hidden.grad is not None
    assert weight.grad is None


def test_a_table_that_is_embedding_and_head_gets_both_gradients() -> None:
    _, weight, targets, weights = case()
    ids = torch.arange(ROWS)
    head_loss(lambda h: F.linear(h, weight), F.embedding(ids, weight), targets, weights).backward()
    (want,) = torch.autograd.grad(plain(F.embedding(ids, weight), weight, targets, weights), [weight])
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, want)


def test_many_small_gradients_are_added_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bfloat16 the sum of 512 equal rows would stop growing at 256."""
    monkeypatch.setattr(head, "LOGIT_ROWS", 1)
    weight = nn.Parameter(torch.zeros(2, 1, dtype=torch.bfloat16))
    hidden = torch.ones(512, 1, dtype=torch.bfloat16, requires_grad=True)
    head_loss(
        lambda h: F.linear(h, weight).float(), hidden, torch.zeros(512, dtype=torch.int64), torch.ones(512)
    ).backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[-256.0], [256.0]]


def test_a_target_that_is_all_but_impossible_has_a_finite_loss() -> None:
    weight = nn.Parameter(torch.tensor([[0.0], [1000.0]]))
    hidden = torch.ones(1, 1, requires_grad=True)
    value = head_loss(lambda h: F.linear(h, weight), hidden, torch.tensor([0]), torch.ones(1))
    value.backward()
    assert value.item() == 1000
    assert hidden.grad is not None
    assert hidden.grad.item() == 1000
