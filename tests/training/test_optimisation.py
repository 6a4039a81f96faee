from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.runs import network, settings

from anyorder.errors import ParameterError
from anyorder.training.optimisation import adamw, check_same


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"steps": 0}, "`steps` must be at least 1, got 0"),
        ({"batch_rows": 0}, "`batch_rows` must be at least 1"),
        ({"micro_rows": 0}, "`micro_rows` must be at least 1"),
        ({"lr": 0.0}, "`lr` must be positive"),
        ({"schedule": "linear"}, "`schedule` must be one of cosine, wsd, constant, got 'linear'"),
        ({"warmup": 7}, r"`warmup` must be in 0 .. steps \(6\), got 7"),
        ({"decay": 2}, "`decay` must be .* left out with the others, got 2"),
        ({"schedule": "wsd"}, "`decay` must be 1 .. steps - warmup .* got 0"),
        ({"schedule": "wsd", "decay": 5}, r"`decay` must be 1 .. steps - warmup \(4\)"),
        ({"floor": 1.5}, "`floor` must be in"),
        ({"betas": (0.9, 1.0)}, "`betas` must be two numbers"),
        ({"eps": 0.0}, "`eps` must be positive"),
        ({"weight_decay": -1.0}, "`weight_decay` must be at least 0"),
        ({"clip": 0.0}, "`clip` must be positive"),
        ({"ema": 1.0}, "`ema` must be in"),
        ({"precision": "float16"}, "`precision` must be 'network' or 'bfloat16'"),
        ({"lr": 0.0, "steps": 0}, "`steps` .*; `lr`"),
    ],
    ids=str,
)
def test_what_is_out_of_range_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text) as caught:
        settings(**changes)
    assert f"`{caught.value.param}`" in str(caught.value)


def test_the_learning_rate_follows_the_schedule() -> None:
    assert [settings(steps=4, warmup=2, lr=1.0).lr_at(step) for step in range(4)] == pytest.approx([0.5, 1, 1, 0.5])
    flat = settings(steps=4, warmup=2, lr=1.0, schedule="constant")
    assert [flat.lr_at(step) for step in range(4)] == [0.5, 1, 1, 1]
    stable = settings(steps=4, warmup=1, lr=1.0, schedule="wsd", decay=1)
    assert [stable.lr_at(step) for step in range(4)] == pytest.approx([1, 1, 1, 1 - 0.5**0.5])


def test_only_matrices_decay() -> None:
    parameters = dict(network().named_parameters())
    optimizer = adamw(parameters, settings(weight_decay=0.5, lr=0.1))
    before = {name: value.detach().clone() for name, value in parameters.items()}
    for value in parameters.values():
        value.grad = torch.zeros_like(value)
    optimizer.step()
    for name, value in parameters.items():
        want = before[name] * (1 - 0.1 * 0.5) if value.dim() > 1 else before[name]
        torch.testing.assert_close(value.detach(), want)


def test_settings_of_another_run(tmp_path: Path) -> None:
    before = asdict(settings())
    check_same(settings(), {**before, "betas": [0.9, 0.95]}, tmp_path)
    with pytest.warns(UserWarning, match="goes on with other settings: lr was 0.01, now 0.5"):
        check_same(settings(lr=0.5), before, tmp_path)
    for changes in ({"seed": 1}, {"batch_rows": 5}, {"ema": 0.9}, {"precision": "bfloat16"}):
        with pytest.raises(ParameterError, match=f"was begun otherwise: {next(iter(changes))} was"):
            check_same(settings(**changes), before, tmp_path)
