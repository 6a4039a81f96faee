"""What few bits cost and bring: logits of a known text, memory and speed, against the model as it was published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyorder.models.facts import describe
from anyorder.models.quantised import SCHEMES
from anyorder.rates import best_time
from anyorder.runner import Runner
from anyorder.window import Attention, Window

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel

TEXT = (
    "A canal is a waterway made by people. The first ones carried water to fields; later ones carried barges, and a "
    "horse on the towpath could pull fifty tons. def area(width, height): return width * height. Two and two make "
    "four, and twelve times twelve make one hundred and forty-four. Le soleil se lève à l'est."
)
SECONDS = 0.5
"""Per timed pass."""
CONTEXT = 128
"""Stored columns before the rows of a timed pass."""
BLOCK = 32
"""Rows of a denoising pass where the model has no block length."""


@dataclass(frozen=True)
class Reading:
    """What a loaded model says about the text, and how fast it is."""

    logits: Tensor
    """[T, V] float32 on the CPU."""
    weight_bytes: int
    row_s: float
    """Seconds of a pass that feeds one row."""
    block_s: float
    """Seconds of a pass that feeds a block."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """A scheme against the exact model."""

    scheme: str
    weight_bytes: int
    mean_error: float
    """Of a logit, absolute."""
    max_error: float
    divergence: float
    """KL of the exact distribution to this one, nats per token, on average."""
    agreement: float
    """Share of the tokens for which both have the same favourite."""
    row_s: float
    block_s: float


@torch.inference_mode()
def read(model: LoadedModel, scheme: str | None = None) -> Reading:
    """Run the text, and passes of one row and of a block.

    Args:
        scheme: that the model was loaded with.
    """
    runner = Runner(model.network)
    ids = _ids(model)
    sizes = describe(model.config, model.spec, dtype=model.network.dtype, scheme=SCHEMES[scheme] if scheme else None)
    (logits,) = runner.forward([_window(model, ids, 0)], [None])
    return Reading(
        logits.float().cpu(),
        sizes.weight_bytes,
        _pass_s(runner, model, 1),
        _pass_s(runner, model, model.block_length or BLOCK),
    )


def compare(exact: Reading, other: Reading, scheme: str) -> Precision:
    """The second reading against the first."""
    error = (other.logits - exact.logits).abs()
    p, q = exact.logits.log_softmax(-1), other.logits.log_softmax(-1)
    return Precision(
        scheme=scheme,
        weight_bytes=other.weight_bytes,
        mean_error=float(error.mean()),
        max_error=float(error.max()),
        divergence=float((p.exp() * (p - q)).sum(-1).mean()),
        agreement=float((p.argmax(-1) == q.argmax(-1)).float().mean()),
        row_s=other.row_s,
        block_s=other.block_s,
    )


def _ids(model: LoadedModel) -> Tensor:
    """The text; without a tokenizer a row of ids that means nothing."""
    if model.tokenizer is not None:
        return torch.tensor(model.tokenizer.encode_text(TEXT, bos=True))[: model.config.max_context]
    length = min(CONTEXT, model.config.max_context)
    return torch.randint(model.config.vocab_size, (length,), generator=torch.Generator().manual_seed(0))


def _window(model: LoadedModel, ids: Tensor, start: int, *, stores: bool = False) -> Window:
    attention: Attention = model.spec.attention
    return Window(
        ids=ids,
        start=start,
        visible=start + len(ids),
        rows=torch.arange(len(ids)),
        attention=attention,
        block_length=model.block_length or len(ids),
        stores=stores,
    )


def _pass_s(runner: Runner, model: LoadedModel, rows: int) -> float:
    rows = min(rows, model.config.max_context)
    start = min(CONTEXT, model.config.max_context - rows)
    storage = runner.storage(start + rows)
    window = _window(model, torch.zeros(rows, dtype=torch.int64), start, stores=True)
    return best_time(lambda: runner.forward([window], [storage]), model.device, seconds=SECONDS)
