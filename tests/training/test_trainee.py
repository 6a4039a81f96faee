"""The adapter learns from the noisy rows alone, on whichever path the attention allows."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from tests.engine.tiny import MASK, tiny
from tests.training.rows import packed
from torch import Tensor

from anyorder.models.adapter import Adapter
from anyorder.training import attention, objectives
from anyorder.training.batch import Batch
from anyorder.training.passes import TrainingPass, loss
from anyorder.training.trainee import Trainee

BLOCK = 4


def complementary(batch: Batch) -> TrainingPass:
    uniform = torch.rand(batch.ids.shape, generator=torch.Generator().manual_seed(3))
    ratio = torch.full((batch.num_blocks(BLOCK),), 0.6)
    return objectives.complementary(
        batch, ratio, uniform, mask_token_id=MASK, block_length=BLOCK, context="causal", frozen_context=True
    )


def drafting(batch: Batch) -> TrainingPass:
    return objectives.drafting(batch, mask_token_id=MASK, block_length=3, offset=1)


def trainee(seed: int = 0) -> Trainee:
    """With an adapter that changes something."""
    base = tiny("llama")
    adapter = Adapter(base.config, rank=2, alpha=4, mask_token_id=MASK)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return Trainee(copy.deepcopy(base.network), adapter.double())


def learned(network: Trainee, p: TrainingPass) -> list[Tensor]:
    value = loss(network, p)
    return [value.detach(), *torch.autograd.grad(value, list(network.adapter.parameters()))]


@pytest.mark.parametrize("objective", [complementary, drafting])
def test_two_phases_learn_what_one_forward_with_a_gate_learns(
    objective: Callable[[Batch], TrainingPass], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks are read in two phases; the dense mask in one forward, the adapter off for the clean rows."""
    network = trainee()
    phased = objective(packed())
    assert isinstance(phased.attend, attention.ChunkedAttention)
    layout = phased.attend
    monkeypatch.setattr(objectives, "attention", lambda layout, rows: attention.DenseAttention(layout, rows))
    gated = objective(packed())
    assert type(gated.attend) is not type(layout)
    torch.testing.assert_close(learned(network, phased), learned(network, gated), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("objective", [complementary, drafting])
def test_the_clean_text_is_read_as_the_base_reads_it(objective: Callable[[Batch], TrainingPass]) -> None:
    """Keys and values of the context are bit for bit those of the base."""
    network = trainee()
    p = objective(packed())
    seen: list[Tensor] = []

    def spy(layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
        seen.append(torch.cat([k[: p.context], v[: p.context]]))
        return p.attend(layer, q, k, v)

    network(p.ids, p.positions, spy, p.rows, p.context)
    adapted, seen = seen, []
    network.network(p.ids, p.positions, spy, p.rows)
    assert len(seen) == len(adapted) == network.network.config.num_layers
    assert all(torch.equal(one, other) for one, other in zip(adapted, seen, strict=True))


def test_only_the_adapter_learns() -> None:
    network = trainee()
    loss(network, drafting(packed())).backward()
    assert all(parameter.grad is None for parameter in network.network.parameters())
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.adapter.parameters())


def test_without_a_context_the_adapter_is_on_everywhere() -> None:
    network = trainee()
    p = objectives.masked_diffusion(
        packed(), torch.full((6,), 0.5), torch.zeros(packed().ids.shape), mask_token_id=MASK
    )
    on = network.network(p.ids, p.positions, p.attend, p.rows, network.adapter.on())
    assert torch.equal(network(p.ids, p.positions, p.attend, p.rows), on)
    assert not torch.equal(on, network.network(p.ids, p.positions, p.attend, p.rows))
