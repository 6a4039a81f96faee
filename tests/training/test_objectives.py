"""What the passes ask of a network, and their gradients against the formulas written out document by document."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from tests.engine.tiny import MASK, VOCABULARY, tiny
from tests.training.rows import packed, spans
from torch import Tensor

from anyorder.errors import ModelError, ParameterError
from anyorder.models.attention import attend_alone
from anyorder.models.transformer import Embedding, Transformer
from anyorder.training import noise, objectives
from anyorder.training.batch import Batch
from anyorder.training.noise import StepDraws
from anyorder.training.objectives import ContextSight
from anyorder.training.passes import TrainingPass, loss

BLOCK = 4
STEP = StepDraws(seed=3, step=5)
UNIFORM = STEP.uniform("mask", 3, 11)
TOKENS = STEP.uniform("token", 3, 11)
PER_DOCUMENT = noise.ratios(STEP.uniform("order", packed().num_documents), 0.2)
PER_BLOCK = noise.ratios(STEP.uniform("order", packed().num_blocks(BLOCK)), 0.2)

Score = tuple[Tensor, int, float]
"""Logits of one row, the target, the weight before the mean."""


def block_of(position: int) -> int:
    return position // BLOCK


def documents(batch: Batch) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """(ids, trainable, UNIFORM, TOKENS) of every document by itself."""
    for row, columns in spans(batch):
        cut = (row, columns)
        yield batch.ids[cut], batch.trainable[cut], UNIFORM[cut], TOKENS[cut]


def t_of(batch: Batch, number: int, position: int, *, per_block: bool) -> float:
    """The ratio of a document's token; padding has groups, too."""
    row, columns = spans(batch)[number]
    column = columns.start + position
    if per_block:
        return float(PER_BLOCK[batch.block_index(BLOCK)[row, column]])
    return float(PER_DOCUMENT[batch.document_index[row, column]])


def alone(network: Transformer, ids: Tensor, sight: Callable[[int, int], bool]) -> Tensor:
    """[L, V] logits of one sequence, where `sight(i, j)` says whether i sees j."""
    length = len(ids)
    mask = torch.tensor([[sight(i, j) for j in range(length)] for i in range(length)])
    return network.head(network(ids, torch.arange(length), attend_alone(mask)))


def prefix_then_block(network: Transformer, clean: Tensor, block: Tensor, context: ContextSight) -> Tensor:
    """[n, V] logits of a (noisy) block behind clean ones: what a decoder computes, without any second stream."""
    start = len(clean)

    def sight(i: int, j: int) -> bool:
        if i >= start:
            return True
        return j <= i if context == "causal" else block_of(j) <= block_of(i)

    return alone(network, torch.cat([clean, block]), sight)[start:]


def by_hand_masked(network: Transformer, batch: Batch) -> Iterator[Score]:
    for number, (ids, trainable, uniform, _) in enumerate(documents(batch)):
        t = t_of(batch, number, 0, per_block=False)
        chosen = [i for i in range(len(ids)) if trainable[i] and uniform[i] < t]
        view = torch.tensor([MASK if i in chosen else x for i, x in enumerate(ids.tolist())])
        logits = alone(network, view, lambda i, j: True)
        yield from ((logits[i], int(ids[i]), 1 / t) for i in chosen)


def by_hand_blocks(
    network: Transformer, batch: Batch, *, per_block: bool = True, context: ContextSight = "block"
) -> Iterator[Score]:
    for number, (ids, trainable, uniform, _) in enumerate(documents(batch)):
        for start in range(0, len(ids), BLOCK):
            t = t_of(batch, number, start, per_block=per_block)
            block = ids[start : start + BLOCK].clone()
            chosen = [i for i in range(len(block)) if trainable[start + i] and uniform[start + i] < t]
            block[chosen] = MASK
            logits = prefix_then_block(network, ids[:start], block, context)
            yield from ((logits[i], int(ids[start + i]), 1 / t) for i in chosen)


def by_hand_complementary(network: Transformer, batch: Batch, context: ContextSight) -> Iterator[Score]:
    for number, (ids, trainable, uniform, _) in enumerate(documents(batch)):
        for start in range(0, len(ids), BLOCK):
            t = t_of(batch, number, start, per_block=True)
            among = [i for i in range(start, min(start + BLOCK, len(ids))) if trainable[i] and i > 0]
            first = [i for i in among if uniform[i] < t]
            for chosen in (first, [i for i in among if i not in first]):
                block = ids[start : start + BLOCK].clone()
                block[[i - start for i in chosen]] = MASK
                noisy = prefix_then_block(network, ids[:start], block, context)
                for i in chosen:
                    row = noisy[i - start - 1] if i > start else last_clean(network, ids[:start], context)
                    yield row, int(ids[i]), 1.0


def last_clean(network: Transformer, ids: Tensor, context: ContextSight) -> Tensor:
    """[V] logits behind finished blocks: what a decoder reads when it begins the next one."""
    before = len(ids) - BLOCK
    if context == "block":
        return prefix_then_block(network, ids[:before], ids[before:], context)[-1]
    return alone(network, ids, lambda i, j: j <= i)[-1]


def by_hand_uniform(network: Transformer, batch: Batch) -> Iterator[Score]:
    for number, (ids, trainable, uniform, tokens) in enumerate(documents(batch)):
        t = t_of(batch, number, 0, per_block=False)
        for start in range(0, len(ids), BLOCK):
            block = ids[start : start + BLOCK].clone()
            for i in range(len(block)):
                if trainable[start + i] and uniform[start + i] < t:
                    block[i] = int(tokens[start + i] * VOCABULARY)
            logits = prefix_then_block(network, ids[:start], block, "causal")
            yield from ((logits[i], int(ids[start + i]), 1.0) for i in range(len(block)) if trainable[start + i])


def by_hand_next_tokens(network: Transformer, batch: Batch) -> Iterator[Score]:
    for ids, trainable, _, _ in documents(batch):
        logits = alone(network, ids, lambda i, j: j <= i)
        yield from ((logits[i - 1], int(ids[i]), 1.0) for i in range(1, len(ids)) if trainable[i])


def mean(scores: Iterator[Score], count: int) -> Tensor:
    return (
        torch.stack([w * F.cross_entropy(logits, torch.tensor(target)) for logits, target, w in scores]).sum() / count
    )


ByHand = Callable[[Transformer, Batch], Tensor]
CASES: dict[str, tuple[Callable[[Batch], TrainingPass], ByHand]] = {
    "masked diffusion": (
        lambda b: objectives.masked_diffusion(b, PER_DOCUMENT, UNIFORM, mask_token_id=MASK),
        lambda n, b: mean(by_hand_masked(n, b), int(b.trainable.sum())),
    ),
    "block diffusion": (
        lambda b: objectives.block_diffusion(b, PER_BLOCK, UNIFORM, mask_token_id=MASK, block_length=BLOCK),
        lambda n, b: mean(by_hand_blocks(n, b), int(b.trainable.sum())),
    ),
    "block diffusion on a causal prefix, with its next tokens": (
        lambda b: objectives.block_diffusion(
            b, PER_BLOCK, UNIFORM, mask_token_id=MASK, block_length=BLOCK, context="causal", causal_weight=0.25
        ),
        lambda n, b: (
            mean(by_hand_blocks(n, b, context="causal"), int(b.trainable.sum()))
            + 0.25 * mean(by_hand_next_tokens(n, b), int((b.trainable & (b.positions > 0)).sum()))
        ),
    ),
    "SDAR": (
        lambda b: objectives.sdar(b, PER_DOCUMENT, UNIFORM, mask_token_id=MASK, block_length=BLOCK),
        lambda n, b: mean(by_hand_blocks(n, b, per_block=False), int(b.trainable.sum())),
    ),
    "complementary": (
        lambda b: objectives.complementary(b, PER_BLOCK, UNIFORM, mask_token_id=MASK, block_length=BLOCK),
        lambda n, b: mean(by_hand_complementary(n, b, "block"), int((b.trainable & (b.positions > 0)).sum())),
    ),
    "complementary on a causal prefix": (
        lambda b: objectives.complementary(
            b, PER_BLOCK, UNIFORM, mask_token_id=MASK, block_length=BLOCK, context="causal"
        ),
        lambda n, b: mean(by_hand_complementary(n, b, "causal"), int((b.trainable & (b.positions > 0)).sum())),
    ),
    "uniform noise": (
        lambda b: objectives.uniform_noise(b, PER_DOCUMENT, UNIFORM, TOKENS, vocab_size=VOCABULARY, block_length=BLOCK),
        lambda n, b: mean(by_hand_uniform(n, b), int(b.trainable.sum())),
    ),
    "autoregressive": (
        objectives.autoregressive,
        lambda n, b: mean(by_hand_next_tokens(n, b), int((b.trainable & (b.positions > 0)).sum())),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("prompt", [0, 2])
def test_loss_and_gradients_are_those_of_the_formula(name: str, prompt: int) -> None:
    """Packed rows with ragged documents and padding, against each document (and block) run by itself; float64."""
    objective, by_hand = CASES[name]
    batch = packed(prompt=prompt)
    network = copy.deepcopy(tiny("llama").network)
    parameters = list(network.parameters())
    got, want = loss(network, objective(batch)), by_hand(network, batch)
    torch.testing.assert_close(got, want, rtol=1e-11, atol=0)
    grads = [torch.autograd.grad(value, parameters) for value in (got, want)]
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_only_trainable_tokens_are_changed_or_asked_for(name: str) -> None:
    batch = packed()
    p = CASES[name][0](batch)
    streams = p.ids.view(-1, *batch.ids.shape)
    changed = streams != batch.ids
    assert not (changed & ~batch.trainable).any()
    assert len(streams) == 1 or not changed[0].any()
    shift = int(name.startswith(("complementary", "autoregressive")))
    if name != "block diffusion on a causal prefix, with its next tokens":
        places = p.rows % batch.ids.numel() + shift
        assert batch.trainable.flatten()[places].all()
        assert torch.equal(batch.ids.flatten()[places], p.targets)
    assert (p.rows[1:] > p.rows[:-1]).all()


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("step", range(5))
def test_a_complementary_pair_asks_each_token_once(shift: bool, step: int) -> None:
    batch = packed()
    uniform = StepDraws(seed=0, step=step).uniform("mask", 3, 11)
    p = objectives.complementary(batch, PER_BLOCK, uniform, mask_token_id=MASK, block_length=BLOCK, shift=shift)
    places = p.rows % batch.ids.numel() + int(shift)
    wanted = objectives.supervised(batch, shift=shift)
    assert torch.equal(places.sort().values, wanted.flatten().nonzero().flatten())
    assert p.weights.sum().item() == pytest.approx(1)


def test_with_shift_a_blocks_first_token_is_asked_of_the_clean_row_before_it() -> None:
    """That is the row a decoder reads: when it begins a block, the block before is finished."""
    batch = Batch.of(torch.arange(8)[None])
    p = objectives.complementary(batch, torch.tensor([0.5, 0.5]), torch.zeros(1, 8), mask_token_id=MASK, block_length=4)
    assert p.rows.tolist() == [3, 8, 9, 10, 12, 13, 14]  # tokens 4; 1, 2, 3; 5, 6, 7, all masked in the first view
    assert p.targets.tolist() == [4, 1, 2, 3, 5, 6, 7]


def test_weights_are_those_of_each_tokens_own_block() -> None:
    batch = Batch.of(torch.arange(4)[None])
    p = objectives.block_diffusion(
        batch, torch.tensor([0.5, 0.25]), torch.zeros(1, 4), mask_token_id=MASK, block_length=2
    )
    assert p.weights.tolist() == [0.5, 0.5, 1, 1]  # 1/t over 4 tokens


def test_a_clean_row_is_never_asked_for_a_token_it_sees() -> None:
    with pytest.raises(ParameterError, match="causal_weight needs context='causal'"):
        objectives.block_diffusion(
            packed(), PER_BLOCK, UNIFORM, mask_token_id=MASK, block_length=BLOCK, causal_weight=0.1
        )


def noised(batch: Batch) -> TrainingPass:
    return CASES["uniform noise"][0](batch)


def test_a_network_without_self_conditioning_is_refused() -> None:
    with pytest.raises(ModelError, match="no self-conditioning module"):
        objectives.self_conditioned_loss(tiny("llama").network, noised(packed()), None)


def test_self_conditioning_adds_what_was_believed_before() -> None:
    """With a module that adds the soft embeddings: the second pass sees them, the first one has no gradient."""
    network = copy.deepcopy(tiny("llama").network)
    assert isinstance(network.embed, Embedding)
    table = network.embed.weight.detach()
    p = noised(packed())
    handed: list[Tensor] = []

    class Conditioned:
        def __init__(self, soft: Tensor) -> None:
            handed.append(soft)

        def __call__(self, ids: Tensor, positions: Tensor, attend: object, rows: Tensor, /, *context: int) -> Tensor:
            def add(module: object, args: object, output: Tensor) -> Tensor:
                return output + handed[-1]

            hook = network.embed.register_forward_hook(add)  # pyright: ignore[reportArgumentType]
            try:
                return network(ids, positions, p.attend, rows)
            finally:
                hook.remove()

        def head(self, hidden: Tensor, /) -> Tensor:
            return network.head(hidden)

    value = objectives.self_conditioned_loss(network, p, Conditioned)
    logits = network.head(network(p.ids, p.positions, p.attend, p.rows)).detach()
    soft = torch.zeros_like(handed[0])
    for row, weights in zip(p.rows.tolist(), logits.softmax(-1), strict=True):
        soft[row] = weights @ table
    assert not handed[0].requires_grad
    torch.testing.assert_close(handed[0], soft)
    torch.testing.assert_close(value, loss(Conditioned(soft), p))
    assert not torch.isclose(value, loss(network, p))
