"""The parts of a pass are the pass: their losses and gradients add up, however it is cut."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from tests.engine.tiny import MASK, tiny
from tests.training.rows import packed
from torch import Tensor, nn

from anyorder.models.adapter import Adapter
from anyorder.models.transformer import Transformer
from anyorder.training import objectives
from anyorder.training.batch import Batch
from anyorder.training.parts import part
from anyorder.training.passes import TrainingPass, loss
from anyorder.training.trainee import Trainee

BLOCK = 4


def masked(batch: Batch) -> TrainingPass:
    return objectives.masked_diffusion(batch, drawn(batch.num_documents), uniform(batch), mask_token_id=MASK)


def blocks(batch: Batch) -> TrainingPass:
    """Rows of both streams are asked, and some of the context's twice."""
    return objectives.complementary(
        batch,
        drawn(batch.num_blocks(BLOCK)),
        uniform(batch),
        mask_token_id=MASK,
        block_length=BLOCK,
        context="causal",
        causal_weight=0.5,
    )


def drafts(batch: Batch) -> TrainingPass:
    return objectives.drafting(batch, mask_token_id=MASK, block_length=3, offset=1)


def drawn(count: int) -> Tensor:
    return 0.2 + 0.6 * torch.rand(count, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def uniform(batch: Batch) -> Tensor:
    return torch.rand(batch.ids.shape, generator=torch.Generator().manual_seed(2))


def plain() -> Transformer:
    return copy.deepcopy(tiny("llama").network)


def adapted() -> Trainee:
    base = tiny("llama")
    adapter = Adapter(base.config, rank=2, alpha=4, mask_token_id=MASK)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return Trainee(copy.deepcopy(base.network), adapter.double())


def learned(network: Transformer | Trainee, passes: Sequence[TrainingPass]) -> list[Tensor]:
    """The loss and all gradients."""
    values = [loss(network, p) for p in passes]
    total = torch.stack(values).sum()
    wanted: list[nn.Parameter] = [value for value in network.parameters() if value.requires_grad]
    return [total.detach(), *torch.autograd.grad(total, wanted)]


@pytest.mark.parametrize(
    ("objective", "make"), [(masked, plain), (blocks, plain), (drafts, adapted)], ids=["masked", "blocks", "drafts"]
)
@pytest.mark.parametrize("cuts", [(0, 3), (0, 1, 3), (0, 1, 2, 3)], ids=str)
def test_parts_add_up(
    objective: Callable[[Batch], TrainingPass], make: Callable[[], Transformer | Trainee], cuts: tuple[int, ...]
) -> None:
    p, network = objective(packed()), make()
    parts = [part(p, slice(start, stop)) for start, stop in itertools.pairwise(cuts)]
    assert sum(piece.ids.shape[0] for piece in parts) == p.ids.shape[0]
    assert sum(piece.context for piece in parts) == p.context
    assert all(part(replace(p, conditioned=yes), slice(0, 1)).conditioned is yes for yes in (True, False))
    for got, want in zip(learned(network, parts), learned(network, [p]), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


def test_a_part_without_a_scored_row_has_all_gradients() -> None:
    """Processes add their gradients up, and each must have one for every parameter."""
    batch = packed()
    trainable = batch.trainable.clone()
    trainable[1] = False
    p = masked(Batch(batch.ids, batch.documents, trainable))
    value, *gradients = learned(plain(), [part(p, slice(1, 2))])
    assert value == 0
    assert all((gradient == 0).all() for gradient in gradients)
