"""What `anyorder inspect --quantize` measures, against logits computed by hand."""

from __future__ import annotations

import pytest
import torch

import anyorder
from anyorder.cli import quantize_view
from anyorder.models.quantised import SCHEMES
from anyorder.precision import Reading, compare, read


def reading(*logits: list[float]) -> Reading:
    return Reading(torch.tensor(logits), weight_bytes=10, row_s=0.1, block_s=0.2)


def test_a_comparison_by_hand() -> None:
    found = compare(reading([0.0, 1.0], [2.0, 0.0]), reading([1.0, 0.0], [2.0, 0.0]), "int8")
    assert found.mean_error == pytest.approx(0.5)
    assert found.max_error == 1
    assert found.agreement == 0.5
    p = torch.tensor([0.0, 1.0]).softmax(0)
    assert found.divergence == pytest.approx(float(p[1] - p[0]) / 2)  # the logs of p / q are -1 and 1


def test_schemes_are_read_from_real_loads(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("anyorder.precision.SECONDS", 0.0)
    found = quantize_view.measured({"model": "tasks"})
    assert [each["scheme"] for each in found] == ["as published", *SCHEMES]
    assert found[0]["divergence"] == 0
    assert found[1]["weight_bytes"] < found[0]["weight_bytes"]
    assert 0 < found[1]["divergence"] < found[3]["divergence"]
    assert all(each["row_s"] > 0 and each["block_s"] > 0 for each in found)
    quantize_view.show(found)
    assert "int8-dynamic" in capsys.readouterr().out


def test_a_model_without_tokenizer_is_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyorder.precision.SECONDS", 0.0)
    model = anyorder.load("tasks")
    model.tokenizer = None
    assert read(model).logits.shape == (min(128, model.config.max_context), model.config.vocab_size)
