from __future__ import annotations

import copy

import pytest
import torch
from tests.engine.tiny import MASK, tiny
from tests.training.rows import packed
from torch import Tensor

from anyorder.training import head, objectives
from anyorder.training.passes import TrainingPass, cross_entropies, loss


def example() -> TrainingPass:
    batch = packed()
    t = torch.full((batch.num_documents,), 0.5, dtype=torch.float64)
    uniform = torch.rand(batch.ids.shape, generator=torch.Generator().manual_seed(1))
    return objectives.masked_diffusion(batch, t, uniform, mask_token_id=MASK)


def gradients(p: TrainingPass) -> tuple[Tensor, list[Tensor]]:
    network = copy.deepcopy(tiny("llada").network)
    value = loss(network, p)
    return value.detach(), list(torch.autograd.grad(value, list(network.parameters())))


def test_the_loss_is_the_weighted_sum() -> None:
    p, network = example(), tiny("llada").network
    logits = network.head(network(p.ids, p.positions, p.attend, p.rows))
    want = -sum(
        w * logits[row].log_softmax(-1)[target]
        for row, (w, target) in enumerate(zip(p.weights.tolist(), p.targets.tolist(), strict=True))
    )
    torch.testing.assert_close(loss(network, p), want)
    assert cross_entropies(network, p).shape == p.rows.shape


def test_few_logits_at_a_time_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    p = example()
    want = gradients(p)
    assert p.rows.numel() > 5
    monkeypatch.setattr(head, "LOGIT_ROWS", 2)
    torch.testing.assert_close(gradients(p), want, rtol=1e-12, atol=1e-12)


def test_a_pass_without_rows_costs_nothing_and_teaches_nothing() -> None:
    batch = packed()
    p = objectives.masked_diffusion(
        batch, torch.full((batch.num_documents,), 0.5), torch.ones(batch.ids.shape), mask_token_id=MASK
    )
    network = copy.deepcopy(tiny("llada").network)
    value = loss(network, p)
    value.backward()
    assert p.rows.numel() == 0
    assert value == 0
    assert all(x.grad is None or (x.grad == 0).all() for x in network.parameters())
