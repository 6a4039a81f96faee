"""Preparing a network for training changes where numbers are kept, not what is learned."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.training.runs import MASK, Counting, denoise, network
from torch import Tensor

from anyorder.models.adapter import Adapter
from anyorder.models.transformer import Transformer
from anyorder.training import objectives
from anyorder.training.distributed import Team
from anyorder.training.learner import Learner, learner
from anyorder.training.noise import StepDraws
from anyorder.training.passes import TrainingPass
from anyorder.training.trainee import Trainee

ALONE = Team(torch.device("cpu"))


def adapted() -> Trainee:
    base = network()
    adapter = Adapter(base.config, rank=2, alpha=4, mask_token_id=MASK).initialise(torch.ones(base.config.hidden_size))
    with torch.no_grad():
        for layer in adapter.layers:
            for change in layer.children():
                change.get_parameter("up").fill_(0.01)
    return Trainee(base, adapter)


def denoising() -> TrainingPass:
    return denoise(Counting().batch(0, 4), StepDraws(0, 0))


def drafting() -> TrainingPass:
    return objectives.drafting(Counting().batch(0, 4), mask_token_id=MASK, block_length=3)


def gradients(made: Learner, p: TrainingPass, times: int = 1) -> dict[str, Tensor]:
    for _ in range(times):
        made.scored(p).backward()
    return {name: value.grad for name, value in made.parameters.items() if value.grad is not None}


CASES = [(network, denoising), (adapted, denoising), (adapted, drafting)]


@pytest.mark.parametrize(("make", "passes"), CASES)
def test_recomputed_layers_give_the_same_gradients(
    make: Callable[[], Transformer | Trainee], passes: Callable[[], TrainingPass]
) -> None:
    kept = gradients(learner(make(), ALONE, precision="network", recompute=False), passes())
    again = gradients(learner(make(), ALONE, precision="network", recompute=True), passes())
    assert kept.keys() == again.keys() != set()
    assert all(torch.equal(kept[name], again[name]) for name in kept)


def test_recomputing_keeps_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that autograd packs away in the forward pass."""

    def kept(recompute: bool) -> int:
        sizes: dict[int, int] = {}

        def pack(value: Tensor) -> Tensor:
            sizes[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
            return value

        made = learner(network(), ALONE, precision="network", recompute=recompute)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
            loss = made.scored(denoising())
        del loss
        return sum(sizes.values())

    assert kept(True) < kept(False) / 2


@pytest.mark.parametrize(("make", "passes"), CASES)
def test_bfloat16_keeps_float32_originals(
    make: Callable[[], Transformer | Trainee], passes: Callable[[], TrainingPass]
) -> None:
    half = make()
    made = learner(half, ALONE, precision="bfloat16", recompute=False)
    assert {value.dtype for value in half.parameters()} == {torch.bfloat16}
    assert {value.dtype for value in made.parameters.values()} == {torch.float32}
    want = gradients(learner(make(), ALONE, precision="network", recompute=False), passes())
    got = gradients(made, passes(), times=2)
    assert got.keys() == want.keys()
    for name, value in want.items():
        assert got[name].dtype == torch.float32
        error = (got[name] / 2 - value).norm() / value.norm().clamp_min(1e-3)
        assert error < 0.1, name


def test_steps_too_small_for_bfloat16_add_up() -> None:
    half = network()
    made = learner(half, ALONE, precision="bfloat16", recompute=False)
    with torch.no_grad():
        for _ in range(100):
            made.parameters["norm"].add_(1e-3)  # 1 + 1e-3 is 1 in bfloat16
    assert (half.norm == 1).all()
    made.stepped()
    torch.testing.assert_close(half.norm.detach().float(), torch.full_like(half.norm, 1.1).float(), rtol=4e-3, atol=0)
