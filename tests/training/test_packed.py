"""From files to a loss, against brute force: packed documents count as they would alone, and prompts are only read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.training.corpus import chat, vocabulary, write_lines
from tests.training.recipe.tiny import RAW, write_model
from torch import Tensor

from anyorder.models.load import load
from anyorder.models.transformer import Transformer
from anyorder.training import noise, objectives
from anyorder.training.batch import PADDING, Batch
from anyorder.training.data.prepare import prepare
from anyorder.training.data.spec import ChatData
from anyorder.training.passes import TrainingPass, loss

MASK = RAW["vocab_size"] - 1


@pytest.fixture
def network(tmp_path: Path) -> Transformer:
    return load(write_model(tmp_path / "model"), dtype="float64", pack=False).network


@pytest.fixture
def packed(tmp_path: Path) -> Batch:
    """Conversations of several turns, packed into rows of 96 with padding."""
    texts = [("hello", "hey", "well", "bye"), ("q", "assistant"), ("he", "ll" * 9), ("a" * 30, "b" * 25, "c", "d")]
    path = write_lines(tmp_path / "a.jsonl", [chat(*turns) for turns in texts])
    prepared = prepare([ChatData(kind="chat", path=path)], vocabulary(tmp_path / "words"), length=160)
    rows = prepared.rows
    batch = rows.batch(0, prepared.packing.rows if prepared.packing else 0)
    assert batch.num_documents > 4, "several documents must share a row"
    assert (batch.documents == PADDING).any()
    return batch


def alone(batch: Batch) -> list[tuple[Batch, tuple[int, slice]]]:
    """Every document as a batch of its own, and where it was."""
    found: list[tuple[Batch, tuple[int, slice]]] = []
    for row in range(batch.ids.shape[0]):
        _, counts = batch.document_index[row].unique_consecutive(return_counts=True)
        start = 0
        for count in counts.tolist():
            place = (row, slice(start, start + count))
            if batch.documents[row, start] != PADDING:
                ids, trainable = batch.ids[place][None], batch.trainable[place][None]
                found.append((Batch(ids, torch.zeros_like(ids), trainable), place))
            start += count
    return found


def passed(kind: str, batch: Batch, uniform: Tensor) -> TrainingPass:
    """A pass whose ratios are the same for all documents and blocks, so that a document's part can be made alone."""
    documents, blocks = (
        torch.full((groups,), 0.5, dtype=torch.float64) for groups in (batch.num_documents, batch.num_blocks(4))
    )
    match kind:
        case "autoregressive":
            return objectives.autoregressive(batch)
        case "llada":
            return objectives.masked_diffusion(batch, documents, uniform, mask_token_id=MASK)
        case "bd3lm":
            return objectives.block_diffusion(
                batch, blocks, uniform, mask_token_id=MASK, block_length=4, context="causal", causal_weight=0.7
            )
        case "sdar":
            return objectives.sdar(batch, documents, uniform, mask_token_id=MASK, block_length=4)
        case "fast-dllm-v2":
            return objectives.complementary(batch, blocks, uniform, mask_token_id=MASK, block_length=4)
        case _:
            tokens = (uniform * 7919) % 1
            return objectives.uniform_noise(batch, documents, uniform, tokens, vocab_size=MASK, block_length=4)


KINDS = ("autoregressive", "llada", "bd3lm", "sdar", "fast-dllm-v2", "diffusiongemma")


@pytest.mark.parametrize("kind", KINDS)
def test_packed_documents_count_as_they_would_alone(kind: str, network: Transformer, packed: Batch) -> None:
    uniform = noise.StepDraws(0, 1).uniform("mask", *packed.ids.shape)
    whole = loss(network, passed(kind, packed, uniform))
    shift = kind in ("autoregressive", "fast-dllm-v2")
    total = int(objectives.supervised(packed, shift=shift).sum())
    parts = torch.zeros((), dtype=torch.float64)
    for batch, (row, columns) in alone(packed):
        share = int(objectives.supervised(batch, shift=shift).sum()) / total
        parts += share * loss(network, passed(kind, batch, uniform[row, columns][None]))
    assert torch.allclose(whole, parts, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_are_read_and_never_asked_for(kind: str, packed: Batch) -> None:
    uniform = torch.zeros(packed.ids.shape)  # everything that may become noise does
    p = passed(kind, packed, uniform)
    size = packed.ids.numel()
    answers = packed.trainable.flatten()
    for stream in p.ids.view(-1, size):
        assert torch.equal(stream[~answers], packed.ids.flatten()[~answers])
    next_token = p.rows < (size if kind in ("bd3lm", "diffusiongemma") else 0)  # rows of the clean text
    next_token |= torch.tensor(kind in ("autoregressive", "fast-dllm-v2"))
    asked = p.rows % size + next_token.long()
    assert answers[asked].all()
    assert torch.equal(packed.ids.flatten()[asked], p.targets)
    assert len(asked)
