"""Recorded Monte-Carlo estimates of LLaDA's log-likelihood, recomputed from the recorded maskings."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from anyorder.models.loaded import LoadedModel
from anyorder.reference.outcome import expect
from anyorder.runner import Runner
from anyorder.window import Window

TOLERANCE = 1e-3  # nats, of a sum over a few tokens with weights up to the answer's length


@torch.inference_mode()
def check(model: LoadedModel, case: dict[str, Any]) -> str:
    """Average over the recorded maskings: cross-entropy of the masked answer tokens over the mask ratio."""
    target = torch.tensor([*case["prompt_ids"], *case["answer_ids"]])
    prompt_length, mask_id = len(case["prompt_ids"]), case["params"]["mask_id"]
    losses = [
        _loss(model, torch.tensor(row), target, prompt_length, mask_id, case["params"].get("cfg_scale", 0.0)) / ratio
        for draw in case["draws"]
        for row, ratio in zip(draw["perturbed"], draw["p_mask"], strict=True)
    ]
    ours = -float(torch.stack(losses).mean())
    difference = abs(ours - case["log_likelihood"])
    expect(difference < TOLERANCE, f"log-likelihood {ours:.4f}, recorded {case['log_likelihood']:.4f}")
    return f"log-likelihood within {difference:.1e}"


def _loss(
    model: LoadedModel, row: Tensor, target: Tensor, prompt_length: int, mask_id: int, cfg_scale: float
) -> Tensor:
    logits = _logits(model, row)
    if cfg_scale:
        unprompted = row.clone()
        unprompted[:prompt_length] = mask_id
        base = _logits(model, unprompted)
        logits = base + (cfg_scale + 1) * (logits - base)
    masked = row == mask_id
    return torch.nn.functional.cross_entropy(logits[masked].double(), target[masked], reduction="sum")


def _logits(model: LoadedModel, row: Tensor) -> Tensor:
    length = row.shape[0]
    window = Window(
        ids=row, start=0, visible=length, rows=torch.arange(length), attention="bidirectional", stores=False
    )
    return Runner(model.network).forward([window], [None])[0].cpu()
