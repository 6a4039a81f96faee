"""Sizes from a config alone, against the published figures and against a network."""

from __future__ import annotations

from pathlib import Path

import torch
from tests.models.test_config import DREAM_7B, LLADA_8B
from tests.models.tiny_models import LLAMA, write_checkpoint

from anyorder.models.facts import describe, num_parameters
from anyorder.models.families import FAMILIES, recognise
from anyorder.models.load import load


def test_published_sizes() -> None:
    llada, dream = (recognise(raw).parse(raw) for raw in (LLADA_8B, DREAM_7B))
    assert num_parameters(llada, FAMILIES["llada"]) == 8_015_581_184
    assert num_parameters(dream, FAMILIES["dream"]) == 7_615_616_512


def test_memory_at_a_context() -> None:
    config = recognise(DREAM_7B).parse(DREAM_7B)
    facts = describe(config, FAMILIES["dream"], dtype=torch.bfloat16, context=2048)
    assert facts.kv_bytes_per_token == 2 * 28 * 4 * 128 * 2
    assert facts.kv_bytes == 2048 * facts.kv_bytes_per_token
    assert facts.weight_bytes == 2 * facts.num_parameters
    assert describe(config, FAMILIES["dream"], dtype=torch.bfloat16).context == 131072


def test_parameters_are_counted_as_the_network_has_them(tmp_path: Path) -> None:
    for tied in (True, False):
        raw = {**LLAMA, "tie_word_embeddings": tied}
        model = load(write_checkpoint(tmp_path, raw), pack=False)
        counted = sum(parameter.numel() for parameter in model.network.parameters())
        assert num_parameters(model.config, model.spec) == counted
