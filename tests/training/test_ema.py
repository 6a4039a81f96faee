from __future__ import annotations

import torch
from torch import nn

from anyorder.training.ema import Average


def test_it_is_the_weighted_mean_of_all_that_was() -> None:
    value = nn.Parameter(torch.tensor([1.0, 2.0]))
    average = Average({"a": value}, 0.5)
    want = value.detach().clone()
    for step in range(1, 40):
        with torch.no_grad():
            value += 1
        decay = min(0.5, (1 + step) / (10 + step))
        want = decay * want + (1 - decay) * value.detach()
        average.update(step)
        torch.testing.assert_close(average.values["a"], want)
    assert value.tolist() == [40.0, 41.0], "the parameters themselves stay as they are"


def test_small_changes_of_half_precision_are_not_lost() -> None:
    value = nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    average = Average({"a": value}, 0.999)
    with torch.no_grad():
        value.add_(0.0078125)
    for step in range(10_000, 11_000):
        average.update(step)
    assert 1.003 < average.values["a"].item() < 1.007
