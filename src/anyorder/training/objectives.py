"""Objectives: from clean rows and random numbers to a `TrainingPass`, whose loss is always a weighted cross-entropy.

Notation of the formulas: x the clean tokens of a document, x_t the noisy ones, t the mask ratio, N the number of
*supervised* tokens of the batch (`supervised`). Every loss is divided by N: it is in nats per token, so that objectives
can be added and batches compared. For another divisor scale the `weights`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from anyorder.draws import wide_dtype
from anyorder.errors import ModelError, ParameterError
from anyorder.models.transformer import Transformer
from anyorder.training import noise
from anyorder.training.attention import Layout, Sight, attention
from anyorder.training.batch import Batch
from anyorder.training.passes import LOGIT_ROWS, Network, TrainingPass, loss

ContextSight = Literal["block", "causal"]
"""Sight of the clean tokens in a two-stream pass: "block" as the published block diffusion models, whose finished
blocks are computed block-causally; "causal" where the prefix is kept by the model's own causal mode."""


def supervised(batch: Batch, *, shift: bool = False) -> Tensor:
    """[B, L] bool, tokens that may be masked and scored: the trainable ones that some row predicts.

    With shift the row of token i - 1 predicts token i, so nothing predicts the first token of a document.
    """
    return batch.trainable & (batch.positions > 0) if shift else batch.trainable


def autoregressive(batch: Batch) -> TrainingPass:
    """Next-token prediction, which keeps a converted model's causal mode alive.

    L = 1/N Σ_i -log p(x_i | x_<i), within documents.
    """
    return _pass(batch, [batch.ids], [_next_tokens(batch)], sight="causal")


def masked_diffusion(batch: Batch, ratio: Tensor, uniform: Tensor, *, mask_token_id: int) -> TrainingPass:
    """Masked diffusion over whole documents: attention is bidirectional, rows predict their own token.

    L = E_t [ 1/N Σ_{i masked} 1/t · -log p(x_i | x_t) ]; for t ~ U(0, 1) N·L bounds the negative log-likelihood from
    above, and is equal to it for a denoiser that knows every conditional. With t ~ U(ε, 1) it is 1/(1-ε) of what the
    integral over t has above ε.

    Args:
        ratio: [documents] t of each document (`Batch.document_index`), see `noise.ratios`.
        uniform: [B, L] in [0, 1), which tokens are masked.
    Source: LLaDA, arXiv:2502.09992, and its GUIDELINES.md (t ~ U(0.001, 1)); MDLM, arXiv:2406.07524.
    """
    among = supervised(batch)
    t = noise.per_token(ratio, batch.document_index)
    chosen = noise.noisy(t, uniform, among)
    term = _Term(0, chosen, _mean_over(among, 1 / t))
    return _pass(batch, [noise.masked(batch.ids, chosen, mask_token_id)], [term], sight="bidirectional")


def block_diffusion(
    batch: Batch,
    ratio: Tensor,
    uniform: Tensor,
    *,
    mask_token_id: int,
    block_length: int,
    context: ContextSight = "block",
    causal_weight: float = 0.0,
) -> TrainingPass:
    """Block diffusion: every block is masked by itself and sees the clean blocks before it, all in one pass.

    L = E [ 1/N Σ_b Σ_{i masked in b} 1/t_b · -log p(x_i | x_t of b, x of the blocks before b) ]; for t_b ~ U(0, 1) each
    block's part bounds its conditional negative log-likelihood. A clipped interval of t (`noise.ratios`) lowers the
    variance of the gradient; the loss is no bound then.

    Args:
        ratio: [blocks] t of each block (`Batch.block_index`).
        uniform: [B, L] in [0, 1), which tokens are masked.
        context: what clean tokens see.
        causal_weight: of the `autoregressive` loss of the clean tokens, added in the same pass; needs context="causal".
    Raises:
        ParameterError: causal_weight with context="block", whose rows see the tokens that they would be asked for.
    Source: BD3-LM, arXiv:2503.09573 (it also redraws masks until a block's share lies in the interval; this does not).
    """
    among = supervised(batch)
    t = noise.per_token(ratio, batch.block_index(block_length))
    chosen = noise.noisy(t, uniform, among)
    view = noise.masked(batch.ids, chosen, mask_token_id)
    return _two_streams(
        batch, [view], [_Term(1, chosen, _mean_over(among, 1 / t))], block_length, context, causal_weight
    )


def sdar(batch: Batch, ratio: Tensor, uniform: Tensor, *, mask_token_id: int, block_length: int) -> TrainingPass:
    """SDAR's conversion: block diffusion without shift, one mask ratio for all blocks of a document.

    L = E_t [ 1/N Σ_{i masked} 1/t · -log p(x_i | x_t of i's block, x of the blocks before) ], t ~ U(0.001, 1).

    Args:
        ratio: [documents] t of each document (`Batch.document_index`).
        uniform: [B, L] in [0, 1), which tokens are masked.
    Source: SDAR, arXiv:2510.06303, and the training branch of its published modeling code, which draws again where a
        row got no mask at all; here such a row adds 0.
    """
    t = noise.per_token(ratio, batch.document_index)
    per_block = t[batch.positions % block_length == 0]  # at the first token of each block, in order
    return block_diffusion(batch, per_block, uniform, mask_token_id=mask_token_id, block_length=block_length)


def complementary(
    batch: Batch,
    ratio: Tensor,
    uniform: Tensor,
    *,
    mask_token_id: int,
    block_length: int,
    shift: bool = True,
    context: ContextSight = "block",
    causal_weight: float = 0.0,
    frozen_context: bool = False,
) -> TrainingPass:
    """Fast-dLLM v2's conversion: two views of every block, masked by m and by 1 - m, so that each token is asked once.

    L = E_m [ 1/N Σ_{v in (m, 1 - m)} Σ_{i masked in v} -log p(x_i | view v of i's block, x of the blocks before) ]: the
    mean over the masked tokens of both views, without 1/t. The views share the clean tokens: the pass feeds three times
    the batch, not four times.

    With shift the row before a token predicts it. In front of a block that is the *clean* row that ends the block
    before it, since that is the row a decoder reads when it begins a block. (The published code takes the noisy one,
    which no decoder ever sees.)

    Args:
        ratio: [blocks] share masked by m (`Batch.block_index`); published: t ~ U(0.001, 1).
        uniform: [B, L] in [0, 1), which tokens m masks.
        shift: rows predict the next token, as the autoregressive model did.
        context, causal_weight: as in `block_diffusion`.
        frozen_context: the clean text is read with the adapter off (`TrainingPass.context`), so that with shift the
            first token of a block, which the causal mode predicts, is not scored.
    Source: Fast-dLLM v2, arXiv:2509.26328, and the training branch of its published modeling code.
    """
    among = supervised(batch, shift=shift)
    t = noise.per_token(ratio, batch.block_index(block_length))
    first = noise.noisy(t, uniform, among)
    weight = _mean_over(among, torch.ones_like(t))
    masks = (first, noise.complement(first, among))
    views = [noise.masked(batch.ids, chosen, mask_token_id) for chosen in masks]
    terms = [_Term(stream, chosen, weight, shift) for stream, chosen in enumerate(masks, start=1)]
    return _two_streams(batch, views, terms, block_length, context, causal_weight, frozen_context)


def drafting(
    batch: Batch, *, mask_token_id: int, block_length: int, offset: int = 0, depth_decay: float = 0.7
) -> TrainingPass:
    """What drafts of a lossless decoder are made of: masks behind a clean prefix, every one asked for its next token.

    L = 1/W Σ_b Σ_j d^j · -log p(x_{b+j+1} | masks at b .. b+n-1, x_<b read causally), W the sum of the weights. The
    token behind the prefix, x_b, is the causal mode's own, and the masks' rows guess those behind it: row b + j sees
    that j tokens lie between, not which. Blocks of n masks follow each other, so the last row of one guesses a token of
    the next.

    Args:
        mask_token_id: fed in place of every token.
        block_length: n, masks per block.
        offset: how far the first block of every document is shortened, 0 to n - 1; draw it, so that every token comes
            to begin a block.
        depth_decay: d; guesses further ahead count less, as a draft that fails early is not read on.
    Source: the drafting of I-DLM, arXiv:2604.11035, with Medusa's depth weights (arXiv:2401.10774); the layout is ours.
    """
    follows = torch.zeros_like(batch.trainable)
    follows[:, :-1] = supervised(batch, shift=True)[:, 1:]
    depth = ((batch.positions + offset) % block_length).to(wide_dtype(batch.ids.device))
    weight = torch.where(follows, depth_decay**depth, 0)
    target = torch.zeros_like(follows)
    target[:, 1:] = follows[:, :-1]
    shifted = torch.zeros_like(weight)
    shifted[:, 1:] = (weight / weight.sum().clamp_min(1e-9))[:, :-1]
    view = torch.full_like(batch.ids, mask_token_id)
    return _pass(
        batch,
        [batch.ids, view],
        [_Term(1, target, shifted, shift=True)],
        sight="causal",
        blocks=batch.block_index(block_length, offset),
        frozen_context=True,
    )


def uniform_noise(
    batch: Batch,
    ratio: Tensor,
    uniform: Tensor,
    tokens: Tensor,
    *,
    vocab_size: int,
    block_length: int,
    context: ContextSight = "causal",
    causal_weight: float = 0.0,
) -> TrainingPass:
    """Denoising of uniform noise: tokens become random ones, nothing says which, and every token is asked for.

    L = E_t [ 1/N Σ_i -log p(x_i | x_t of i's block, x of the blocks before) ], over noisy and clean tokens alike.

    Args:
        ratio: [documents] t of each document (`Batch.document_index`); published: t ~ U(ε, 1).
        uniform: [B, L] in [0, 1), which tokens are replaced.
        tokens: [B, L] in [0, 1), by what.
        context, causal_weight: as in `block_diffusion`; DiffusionGemma reads clean text causally.
    Source: DiffusionGemma, arXiv:2608.00146, as NeMo AutoModel's recipe for it describes the loss.
    """
    among = supervised(batch)
    t = noise.per_token(ratio, batch.document_index)
    view = noise.replaced(batch.ids, noise.noisy(t, uniform, among), tokens, vocab_size)
    term = _Term(1, among, _mean_over(among, torch.ones_like(t)))
    return _two_streams(batch, [view], [term], block_length, context, causal_weight)


Condition = Callable[[Tensor], Network]
"""Soft embeddings [T, hidden] of a previous prediction -> the network that adds them to its input embeddings."""


def self_conditioned_loss(network: Transformer, p: TrainingPass, condition: Condition | None) -> Tensor:
    """The loss of a pass whose network is told what it predicted of the same noisy tokens in a pass before.

    e_i = Σ_v p(v | x_t) E_v for the scored rows and 0 elsewhere, without gradient; L of `p` given e. Published training
    does this for half of the passes (or examples) and trains the others with e = 0, that is with `loss`.

    Args:
        network: for the first pass.
        p: a pass whose rows predict their own token, such as that of `uniform_noise`.
        condition: the network's self-conditioning module; None where it has none.
    Raises:
        ModelError: there is no such module. None of the families that are loaded today has one.
    Source: Analog Bits, arXiv:2208.04202, algorithm 1; DiffusionGemma, arXiv:2608.00146.
    """
    if condition is None:
        raise ModelError(
            "this network has no self-conditioning module; train it with the plain loss, or pass `condition`"
        )
    return loss(condition(_soft_embeddings(network, p)), p)


def _soft_embeddings(network: Transformer, p: TrainingPass) -> Tensor:
    """[T, hidden]: the expected embedding of what the scored rows predict, 0 for all other tokens."""
    with torch.no_grad():
        hidden = network(p.ids, p.positions, p.attend, p.rows)
        table = network.embed(torch.arange(network.config.vocab_size, device=hidden.device))  # [V, hidden]
        soft = hidden.new_zeros(p.ids.shape[0], hidden.shape[1])
        for rows, part in zip(p.rows.split(LOGIT_ROWS), hidden.split(LOGIT_ROWS), strict=True):
            soft[rows] = network.head(part).softmax(-1).to(table.dtype) @ table
    return soft


@dataclass(frozen=True, eq=False)
class _Term:
    """Tokens to be predicted from a stream."""

    stream: int
    scored: Tensor  # [B, L] bool
    weight: Tensor  # [B, L] of each token's cross-entropy
    shift: bool = False  # the row of token i - 1 predicts token i


def _mean_over(among: Tensor, weight: Tensor) -> Tensor:
    """Weights divided by the number of supervised tokens."""
    return weight / among.sum().clamp_min(1)


def _next_tokens(batch: Batch, weight: float = 1.0) -> _Term:
    """Every token from the context's row in front of it."""
    among = supervised(batch, shift=True)
    weights = torch.full(among.shape, weight, dtype=wide_dtype(among.device), device=among.device)
    return _Term(0, among, _mean_over(among, weights), shift=True)


def _two_streams(
    batch: Batch,
    views: Sequence[Tensor],
    terms: Sequence[_Term],
    block_length: int,
    context: ContextSight,
    causal_weight: float,
    frozen_context: bool = False,
) -> TrainingPass:
    """The clean context and noisy views [B, L] of it, with all their terms."""
    if causal_weight and context == "block":
        raise ParameterError(
            "causal_weight needs context='causal': with 'block' a clean row sees the token that it would be asked for",
            param="causal_weight",
        )
    if frozen_context and (causal_weight or context == "block"):
        raise ParameterError(
            "frozen_context reads the clean text as the causal base does and learns nothing from it: it needs "
            f"context='causal' and causal_weight 0, got {context!r} and {causal_weight}",
            param="frozen_context",
        )
    begins = batch.positions % block_length == 0
    terms = [part for term in terms for part in _by_source(term, begins)]
    if frozen_context:
        terms = [term for term in terms if term.stream]
    if causal_weight:
        terms.append(_next_tokens(batch, causal_weight))
    return _pass(
        batch,
        [batch.ids, *views],
        terms,
        sight=context,
        block_length=block_length,
        frozen_context=frozen_context,
    )


def _by_source(term: _Term, begins: Tensor) -> list[_Term]:
    """With shift a block's first token is predicted by the context's row that ends the block before it."""
    if not term.shift:
        return [term]
    return [
        replace(term, stream=0, scored=term.scored & begins),
        replace(term, scored=term.scored & ~begins),
    ]


def _pass(
    batch: Batch,
    streams: Sequence[Tensor],
    terms: Sequence[_Term],
    *,
    sight: Sight,
    block_length: int = 1,
    blocks: Tensor | None = None,
    frozen_context: bool = False,
) -> TrainingPass:
    """Streams [B, L], the context first, as one row of tokens; `blocks` [B, L] instead of those of one length."""
    rows, targets, weights = _merged(batch, terms)
    layout = Layout(
        documents=batch.document_index,
        blocks=batch.block_index(block_length) if blocks is None else blocks,
        sight=sight,
        streams=len(streams),
    )
    return TrainingPass(
        ids=torch.stack(list(streams)).flatten(),
        positions=batch.positions.flatten().repeat(len(streams)),
        attend=attention(layout, rows),
        rows=rows,
        targets=targets,
        weights=weights,
        context=batch.ids.numel() if frozen_context else 0,
    )


def _merged(batch: Batch, terms: Sequence[_Term]) -> tuple[Tensor, Tensor, Tensor]:
    """Rows in order, their targets and weights; a row that several terms ask is asked once, for the sum of them.

    Only the context's rows are asked twice, and then for the same next token.
    """
    size = batch.ids.numel()
    asked = [term.stream * size + term.scored.flatten().nonzero().flatten() - int(term.shift) for term in terms]
    rows, place = torch.cat(asked).unique(return_inverse=True)
    targets = torch.cat([batch.ids[term.scored] for term in terms])
    weights = torch.cat([term.weight[term.scored] for term in terms])
    return (
        rows,
        targets.new_zeros(rows.shape).scatter_(0, place, targets),
        weights.new_zeros(rows.shape).index_add_(0, place, weights),
    )
