"""Floating-point operations of a training pass, counted from its shapes."""

from __future__ import annotations

from anyorder.models.config import ModelConfig
from anyorder.training.attention import Layout
from anyorder.training.parts import layout_of
from anyorder.training.passes import TrainingPass


def training_flops(p: TrainingPass, config: ModelConfig, *, adapter: bool) -> float:
    """Operations of matrix products and attention, forward and backward; a product of [n, k] and [k, m] is 2nkm.

    Attention counts only what is seen, and what is recomputed, element-wise work and an adapter's own small products
    count nothing: it is the least that the pass needs.

    Args:
        adapter: the network's own parameters are frozen, so that none of them gets a gradient.
    """
    layout = layout_of(p)
    size = layout.documents.numel()
    seen, seen_noisy = pairs(layout)
    asked = int((p.rows < size).sum())
    linear, attending = _forward(config, size, seen, asked)
    noisy = _forward(config, p.ids.shape[0] - size, seen_noisy * (layout.streams - 1), p.rows.shape[0] - asked)
    head = 2.0 * p.rows.shape[0] * config.hidden_size * config.vocab_size
    products = 2 if adapter else 3  # forward, gradient of the input, gradient of the weights
    backward = (products - 1, 2) if not p.context else (0, 0)
    return (
        linear * (1 + backward[0])
        + attending * (1 + backward[1])
        + noisy[0] * products
        + noisy[1] * 3
        + head * products
    )


def _forward(config: ModelConfig, tokens: int, seen: int, rows: int) -> tuple[float, float]:
    """Operations of products and of attention in the layers; the last one goes on for the wanted rows only."""
    qkv = 2.0 * config.hidden_size * (config.query_size + 2 * config.kv_size)
    rest = [2.0 * (config.query_size * config.hidden_size + _mlp(config, index)) for index in range(config.num_layers)]
    linear = tokens * (config.num_layers * qkv + sum(rest[:-1])) + rows * rest[-1]
    attending = 4.0 * config.query_size * seen * (config.num_layers - 1 + rows / max(tokens, 1))
    return linear, attending


def _mlp(config: ModelConfig, index: int) -> int:
    """Weights of a layer's MLP that a token meets: a router and its own experts count, the other experts do not."""
    moe, hidden = config.moe, config.hidden_size
    if moe is None or not moe.layers[index]:
        return 3 * hidden * config.intermediate_size
    return hidden * (moe.num_experts + 3 * (moe.top_k * moe.expert_size + moe.shared_size))


def pairs(layout: Layout) -> tuple[int, int]:
    """Queries times keys that are seen: of the context, and of one noisy stream."""
    _, document, sizes = layout.documents.flatten().unique_consecutive(return_inverse=True, return_counts=True)
    _, block, lengths = layout.blocks.flatten().unique_consecutive(return_inverse=True, return_counts=True)
    begins = sizes.cumsum(0) - sizes
    ends = (lengths.cumsum(0)[block] - begins[document])[lengths.cumsum(0) - 1]  # of each block, in its document
    by_block = int((lengths * ends).sum())  # a noisy token sees the context before its block and its own block
    match layout.sight:
        case "bidirectional":
            context = int((sizes * sizes).sum())
        case "block":
            context = by_block
        case "causal":
            context = int((sizes * (sizes + 1) // 2).sum())
    return context, by_block
