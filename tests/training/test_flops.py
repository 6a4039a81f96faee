from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.engine.tiny import MASK, tiny
from tests.training.rows import packed
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from anyorder.models.adapter import Adapter
from anyorder.training import flops, objectives
from anyorder.training.attention import Layout, Sight, dense_mask
from anyorder.training.batch import Batch
from anyorder.training.flops import pairs, training_flops
from anyorder.training.learner import Scored
from anyorder.training.passes import TrainingPass
from anyorder.training.trainee import Trainee


def denoise(batch: Batch) -> TrainingPass:
    t = torch.full((batch.num_documents,), 0.5)
    return objectives.masked_diffusion(batch, t, torch.rand(batch.ids.shape), mask_token_id=MASK)


def blocks(batch: Batch) -> TrainingPass:
    t = torch.full((batch.num_blocks(4),), 0.5)
    return objectives.complementary(batch, t, torch.rand(batch.ids.shape), mask_token_id=MASK, block_length=4)


def drafts(batch: Batch) -> TrainingPass:
    return objectives.drafting(batch, mask_token_id=MASK, block_length=4)


class Counter(TorchDispatchMode):
    """Counts operations of matrix products as PyTorch does; it does not know the attention of a CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if count := flop_registry.get(func.overloadpacket):
            self.total += count(*args, **(kwargs or {}), out_val=result)
        return result


def counted(scored: Scored, p: TrainingPass) -> int:
    """Operations of the products of a forward and a backward pass."""
    with Counter() as counter:
        scored(p).backward()
    return counter.total


@pytest.fixture(autouse=True)
def _attention_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the counted operations; `pairs` has a test of its own."""
    monkeypatch.setattr(flops, "pairs", lambda layout: (0, 0))


@pytest.mark.parametrize("family", ["llama", "llada2_moe"])
@pytest.mark.parametrize("objective", [denoise, blocks])
def test_products_of_a_network_are_those_that_run(objective: Callable[[Batch], TrainingPass], family: str) -> None:
    base = tiny(family)
    p = objective(packed())
    assert training_flops(p, base.config, adapter=False) == counted(Scored(copy.deepcopy(base.network)), p)


@pytest.mark.parametrize("objective", [denoise, drafts])
def test_products_of_a_frozen_network_are_those_that_run(objective: Callable[[Batch], TrainingPass]) -> None:
    """Counted for two ranks; what is the same for both is not the adapter's."""
    base = tiny("llama")
    p = objective(packed())
    ranks = []
    for rank in (1, 2):
        adapter = Adapter(base.config, rank=rank, alpha=1, mask_token_id=MASK)
        adapter.initialise(torch.zeros(base.config.hidden_size))
        ranks.append(counted(Scored(Trainee(copy.deepcopy(base.network), adapter.double())), p))
    assert training_flops(p, base.config, adapter=True) == 2 * ranks[0] - ranks[1]


@pytest.mark.parametrize("sight", ["bidirectional", "block", "causal"])
def test_pairs_are_those_of_the_mask(sight: Sight) -> None:
    batch = packed()
    layout = Layout(documents=batch.document_index, blocks=batch.block_index(4), sight=sight, streams=2)
    mask = dense_mask(layout)
    size = batch.ids.numel()
    assert pairs(layout) == (int(mask[:size].sum()), int(mask[size:].sum()))
