"""What a model says about given text: masked cross-entropy by ratio and by depth, causal cross-entropy, logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyorder.models.attention import attend_alone
from anyorder.models.loaded import LoadedModel
from anyorder.params import DecodeParams
from anyorder.resolve import resolve
from anyorder.training import noise
from anyorder.training.batch import Batch
from anyorder.training.objectives import autoregressive, complementary, supervised
from anyorder.training.passes import LOGIT_ROWS, Network, TrainingPass
from anyorder.training.trainee import Trainee

RATIOS = (0.15, 0.3, 0.45, 0.55, 0.7, 0.85, 1.0)
"""Mask ratios that are measured; r and 1 - r come from one pass."""
SEED = 0
"""Of the choice of masked tokens: every model is asked for the same ones."""


@dataclass(frozen=True)
class Score:
    """Sums over scored tokens."""

    tokens: int
    nats: float
    hits: int
    """Tokens whose argmax was right."""


@dataclass(frozen=True)
class Document:
    """A prompt and an answer, of which the answer is scored."""

    prompt_ids: Sequence[int]
    answer_ids: Sequence[int]

    def batch(self, device: torch.device) -> Batch:
        """One row."""
        ids = torch.tensor([[*self.prompt_ids, *self.answer_ids]], device=device)
        answer = torch.arange(ids.shape[1], device=device) >= len(self.prompt_ids)
        return Batch(ids, torch.zeros_like(ids), answer[None])


@dataclass(frozen=True)
class MaskedScores:
    """What a denoiser says about one document."""

    by_ratio: dict[float, Score]
    by_depth: list[Score]
    """At ratio 1, by the place of the token in its block, of blocks without prompt; [] for a model without blocks."""


@torch.inference_mode()
def masked_scores(model: LoadedModel, document: Document) -> MaskedScores:
    """Masked cross-entropy and accuracy of the answer's tokens, at every ratio of `RATIOS`.

    A model without blocks sees the whole document. Of a block model each block is masked by itself and sees itself both
    ways and the clean text before it; where its logits are shifted, the first token of a block is predicted by that
    clean text alone and not scored, so that `by_depth` begins with 0 tokens.

    Raises:
        ModelError: the model has no mask token.
    """
    if model.spec.attention == "bidirectional":
        return MaskedScores({ratio: _whole(model, document, ratio) for ratio in RATIOS}, [])
    by_ratio: dict[float, Score] = {}
    by_depth: list[Score] = []
    block_length = _block_length(model)
    for ratio in RATIOS:
        if ratio in by_ratio:
            continue
        rows = _in_blocks(model, document, ratio, block_length)
        by_ratio[ratio] = rows.score(rows.stream == 1)
        by_ratio.setdefault(round(1 - ratio, 6), rows.score(rows.stream == 2))
        if ratio == 1:
            by_depth = rows.by_depth(block_length, behind=len(document.prompt_ids))
    return MaskedScores({ratio: by_ratio[ratio] for ratio in RATIOS}, by_depth)


@torch.inference_mode()
def causal_score(model: LoadedModel, document: Document) -> Score:
    """The answer under the causal mode, which is read with the adapter off."""
    p = autoregressive(document.batch(model.device))
    return _judged(model.network, p, shift=True).score()


@torch.inference_mode()
def same_logits(a: LoadedModel, b: LoadedModel, document: Document) -> bool:
    """True if the causal modes of two models give bit-identical logits at every token of prompt and answer.

    Of a vocabulary that grew by a mask token, the common part is compared.
    """
    p = autoregressive(Batch.of(document.batch(a.device).ids))
    first, second = (model.network.head(model.network(p.ids, p.positions, p.attend, p.rows)) for model in (a, b))
    common = min(first.shape[1], second.shape[1])
    return torch.equal(first[:, :common], second[:, :common])


def fingerprint(model: LoadedModel, ids: Sequence[int]) -> str:
    """What tells a model's weights from those of another training step: what it says about one text."""
    document = Document(ids[:1], ids[1:])
    denoises = model.mask_token_id is not None and model.spec.modes != ("causal",)
    nats = [masked_scores(model, document).by_ratio[1.0].nats] if denoises else []
    nats += [causal_score(model, document).nats] if "causal" in model.spec.modes else []
    return " ".join(f"{value:.6g}" for value in nats)


@dataclass(frozen=True)
class _Rows:
    """Scored rows; all [R]."""

    nats: Tensor
    hits: Tensor
    stream: Tensor  # of the pass
    slot: Tensor  # column of the predicted token

    def score(self, chosen: Tensor | None = None) -> Score:
        nats, hits = (self.nats, self.hits) if chosen is None else (self.nats[chosen], self.hits[chosen])
        return Score(nats.shape[0], float(nats.double().sum()), int(hits.sum()))

    def by_depth(self, block_length: int, *, behind: int) -> list[Score]:
        """One score per place in a block, of the blocks that begin at column `behind` or later."""
        whole = (self.stream == 1) & (self.slot // block_length * block_length >= behind)
        return [self.score(whole & (self.slot % block_length == depth)) for depth in range(block_length)]


def _judged(network: Network, p: TrainingPass, *, shift: bool, length: int | None = None) -> _Rows:
    """Run a pass of rows of `length` columns (None: it has one stream)."""
    length = length or p.ids.shape[0]
    hidden = network(p.ids, p.positions, p.attend, p.rows, *([p.context] if p.context else []))
    nats, hits = _against(network, hidden, p.targets)
    return _Rows(nats, hits, stream=p.rows // length, slot=p.rows % length + int(shift))


def _against(network: Network, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """-log p(target) in nats, and whether the argmax is the target; hidden [R, hidden] -> [R] each."""
    nats, hits = [targets.new_empty(0, dtype=torch.float32)], [targets.new_empty(0, dtype=torch.bool)]
    for part, expected in zip(hidden.split(LOGIT_ROWS), targets.split(LOGIT_ROWS), strict=True):
        logits = network.head(part)
        nats.append(F.cross_entropy(logits, expected, reduction="none"))
        hits.append(logits.argmax(-1) == expected)
    return torch.cat(nats), torch.cat(hits)


def _in_blocks(model: LoadedModel, document: Document, ratio: float, block_length: int) -> _Rows:
    """Stream 1 is masked by `ratio`, stream 2 by 1 - ratio."""
    batch = document.batch(model.device)
    p = complementary(
        batch,
        torch.full((batch.num_blocks(block_length),), ratio, device=model.device),
        _uniform(batch, ratio),
        mask_token_id=_mask(model),
        block_length=block_length,
        shift=model.spec.shift,
        context="causal" if model.spec.attention == "causal" else "block",
        frozen_context=model.adapter is not None,
    )
    return _judged(_denoiser(model), p, shift=model.spec.shift, length=batch.ids.shape[1])


def _whole(model: LoadedModel, document: Document, ratio: float) -> Score:
    """The document in one stream that sees itself both ways."""
    batch = document.batch(model.device)
    among = supervised(batch, shift=model.spec.shift)
    uniform = _uniform(batch, ratio)
    chosen = noise.noisy(torch.full_like(uniform, ratio), uniform, among)
    ids = noise.masked(batch.ids, chosen, _mask(model))[0]
    columns = torch.arange(ids.shape[0], device=ids.device)
    hidden = _denoiser(model)(ids, columns, attend_alone(None), columns)
    slots = columns[chosen[0]]
    nats, hits = _against(model.network, hidden[slots - int(model.spec.shift)], batch.ids[0, slots])
    return _Rows(nats, hits, torch.zeros_like(slots), slots).score()


def _denoiser(model: LoadedModel) -> Network:
    return model.network if model.adapter is None else Trainee(model.network, model.adapter)


def _uniform(batch: Batch, ratio: float) -> Tensor:
    return noise.StepDraws(SEED, round(ratio * 100), batch.ids.device).uniform("mask", *batch.ids.shape)


def _block_length(model: LoadedModel) -> int:
    """As its decoder takes it."""
    length = resolve(DecodeParams(mode="block"), model).block_length
    assert length is not None, "mode 'block' has blocks"
    return length


def _mask(model: LoadedModel) -> int:
    assert model.mask_token_id is not None, "the subject of a report has a mask token"
    return model.mask_token_id
