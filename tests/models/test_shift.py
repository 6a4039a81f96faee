"""The shift self-check on networks whose convention is known."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from tests.models.tiny_models import LLAMA, write_checkpoint
from torch import Tensor

from anyorder.errors import ModelError, ParameterError
from anyorder.models.load import load
from anyorder.models.loaded import LoadedModel
from anyorder.models.moe import Blocks
from anyorder.models.shift import ShiftReport, check_shift
from anyorder.models.transformer import Attend, Changes, Transformer

TEXT = [5, 6, 7, 8, 9, 10]
MASK = 0


class Counting(Transformer):
    """Knows that token i is i + 5; its logits of position i predict token i, or i + 1 when shifted."""

    shifted = False

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        attend: Attend,
        rows: Tensor | None = None,
        adapted: Changes | None = None,
        blocks: Blocks | None = None,
    ) -> Tensor:
        assert ((ids.view(-1, len(TEXT)) == MASK).sum(-1) == 1).all(), "one token is masked at a time"
        return (positions + TEXT[0] + self.shifted)[:, None]

    def head(self, hidden: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(hidden[:, 0], self.config.vocab_size) * 9.0


def model(folder: Path, *, declared: bool, actual: bool) -> LoadedModel:
    loaded = load(write_checkpoint(folder), mask_token_id=MASK, shift=declared)
    network = Counting(loaded.config)
    network.shifted = actual
    return dataclasses.replace(loaded, network=network)


@pytest.mark.parametrize("actual", [True, False])
def test_the_right_convention_is_confirmed(tmp_path: Path, actual: bool) -> None:
    report = check_shift(model(tmp_path, declared=actual, actual=actual), TEXT)
    assert report.measured == actual
    report.require()


@pytest.mark.parametrize("actual", [True, False])
def test_the_wrong_convention_is_named(tmp_path: Path, actual: bool) -> None:
    report = check_shift(model(tmp_path, declared=not actual, actual=actual), TEXT)
    with pytest.raises(ModelError, match=rf"expected shift={not actual}; pass shift={actual}"):
        report.require()


def test_untrained_weights_say_nothing(tmp_path: Path) -> None:
    report = check_shift(load(write_checkpoint(tmp_path), mask_token_id=MASK), TEXT)
    assert report.measured is None
    report.require()


def test_what_it_needs(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, LLAMA)
    with pytest.raises(ParameterError, match="needs a mask token"):
        check_shift(load(folder), TEXT)
    with pytest.raises(ParameterError, match="needs a tokenizer"):
        check_shift(load(folder, mask_token_id=MASK))


def test_load_refuses_a_contradicted_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    """`verify` must act on the report of the loaded weights, and cost nothing without it."""
    report = ShiftReport(declared=False, shifted=-1.0, unshifted=-30.0, vocab_size=10**9)
    monkeypatch.setattr("anyorder.models.load.check_shift", lambda _model: report)
    folder = Path(__file__).parents[1] / "reference" / "llada"
    load(folder)
    with pytest.raises(ModelError, match="pass shift=True"):
        load(folder, verify=True)
