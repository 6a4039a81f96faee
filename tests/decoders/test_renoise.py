"""Canvases of noise, with logits that are given: how many passes each of them takes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from anyorder.canvas import Canvas
from anyorder.decoders.choose import Sampling
from anyorder.decoders.renoise import Cleaning, RenoiseDecoder

WIDTH, VOCABULARY, TOKEN = 4, 7, 5


def sure() -> Tensor:
    return 40.0 * torch.eye(VOCABULARY)[[TOKEN] * WIDTH]


def finish(decoder: RenoiseDecoder) -> list[int]:
    """Passes of every canvas."""
    decoder.start()
    counts, block = list[int](), None
    while decoder.finished is None:
        if decoder.block != block:
            counts.append(0)
            block = decoder.block
        counts[-1] += 1
        decoder.plan()
        decoder.apply(decoder.decide([sure()]))
    return counts


@pytest.mark.parametrize("stability", [0, 1, 2, 3])
def test_every_canvas_must_settle_by_itself(stability: int) -> None:
    """Also where it reads like the canvas before from its first pass on."""
    decoder = RenoiseDecoder(
        Canvas.from_prompt([1, 2, 3], mask_id=-1),
        Sampling(mask_id=None),
        end=3 + 3 * WIDTH,
        canvas_length=WIDTH,
        vocab_size=VOCABULARY,
        soften=lambda probabilities: probabilities,
        cleaning=Cleaning(steps=9, stability=stability),
    )
    assert finish(decoder) == [stability + 1] * 3
    assert decoder.canvas.ids[3:].tolist() == [TOKEN] * 3 * WIDTH
