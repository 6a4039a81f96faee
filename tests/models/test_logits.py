"""Recorded logits of published code: the network alone, without runner and caches."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.models.tiny_models import logits

from anyorder.models.load import load
from anyorder.models.loaded import LoadedModel

REFERENCE = Path(os.environ.get("ANYORDER_REFERENCE") or Path(__file__).parents[1] / "reference")
TOLERANCE = 2e-4


def read(family: str, **options: object) -> tuple[LoadedModel, dict[str, torch.Tensor]]:
    folder = REFERENCE / family
    if not folder.exists():
        pytest.skip(f"no {family} among the reference folders")
    mask_id = json.loads((folder / "decode.json").read_text("utf-8")).get("mask_token_id")
    return load(folder, mask_token_id=mask_id, **options), load_file(folder / "logits.safetensors")  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ["llada", "dream"])
@pytest.mark.parametrize("pack", [None, False])
def test_full_canvas(family: str, pack: bool | None) -> None:
    model, cases = read(family, pack=pack)
    with torch.inference_mode():
        for ids, expected in zip(cases["full.input_ids"], cases["full.logits"], strict=True):
            torch.testing.assert_close(logits(model.network, ids), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_left_padding_is_dropped(family: str) -> None:
    """A padded row equals the bare tokens: at absolute positions for LLaDA, at positions counted from 0 for Dream."""
    model, cases = read(family)
    for row, ids in enumerate(cases["left_pad.input_ids"]):
        mask = cases["left_pad.attention_mask"][row]
        real = (mask.diagonal() if mask.dim() > 1 else mask).bool()
        positions = real.nonzero()[:, 0]
        if family == "dream":
            positions = cases["left_pad.position_ids"][row][real]
            assert positions[0] == 0
        with torch.inference_mode():
            found = logits(model.network, ids[real], positions=positions)
        torch.testing.assert_close(found, cases["left_pad.logits"][row][real], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("pack", [None, False])
def test_sdar_block_mask(pack: bool | None) -> None:
    model, cases = read("sdar", pack=pack)
    mask = cases["block_mask.attention_mask"][0].bool()
    with torch.inference_mode():
        found = logits(model.network, cases["block_mask.input_ids"][0], mask, cases["block_mask.position_ids"][0])
    torch.testing.assert_close(found, cases["block_mask.logits"][0], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("pack", [None, False])
def test_fast_dllm_v2_block_mask(pack: bool | None) -> None:
    model, cases = read("fast_dllm_v2", pack=pack)
    ids = cases["block_mask.input_ids"][0]
    blocks = torch.arange(len(ids)) // cases["block_mask.block_size"]
    with torch.inference_mode():
        found = logits(model.network, ids, blocks[None, :] <= blocks[:, None])
    torch.testing.assert_close(found, cases["block_mask.logits"][0], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("family", "block_length", "stop_ids"), [("llada", 32, (4,)), ("dream", None, (2,)), ("sdar", 4, (3,))]
)
def test_resolved_facts(family: str, block_length: int | None, stop_ids: tuple[int, ...]) -> None:
    model, _ = read(family)
    assert (model.block_length, model.stop_ids, model.tokenizer) == (block_length, stop_ids, None)
