"""Measure this machine with matrices of a model's shape: seconds per weight by rows, and what a layer costs besides."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate

import torch
from torch import Tensor, nn

from anyorder.models.adapter import product_sizes
from anyorder.models.config import ModelConfig
from anyorder.models.linear import Linear, PackedLinear, can_pack
from anyorder.models.transformer import Transformer
from anyorder.plan.machine import Machine
from anyorder.rates import best_time, matrix_rate
from anyorder.runner import Runner
from anyorder.window import Window

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
PROBE_BYTES = 1 << 29
"""Weights that a timed run goes through, at most: more than caches hold."""
SECONDS = 0.4
"""Per timed point."""
LAYERS = 4
WINDOWS = 8
TOKENS = 64
CONTEXT = 64
FAR = 16

Report = Callable[[str], None]


@torch.inference_mode()
def measure(
    config: ModelConfig, *, dtype: torch.dtype, device: torch.device, name: str, report: Report = lambda step: None
) -> Machine:
    """Rates of a device at a model's shapes; takes some ten seconds on a CPU.

    What is run are plain layers of the model's sizes, whatever else it has in them: rates are not a matter of norms.

    Args:
        report: told of what is measured next.
    """
    config = _plain(config)
    report("a large matrix product")
    rate = matrix_rate(dtype, device)
    matrices = list(_matrices(config, dtype, device))
    products: list[tuple[int, float]] = []
    for rows in ROWS:
        report(f"products of {rows} rows")
        products.append((rows, _weight_s(matrices, rows, dtype, device)))
    del matrices
    products = _rising(products)
    report("layers")
    machine = Machine(
        name=name,
        bandwidth=dtype.itemsize / products[0][1],
        memory=_memory(device),
        matrix_rate=rate,
        measured=True,
        products=tuple(products),
    )
    machine = replace(machine, attention_rate=_attention_rate(config, dtype, device))
    layer, token, window = _rest(config, machine, dtype, device)
    return replace(machine, layer_s=layer, token_s=token, window_s=window)


def _plain(config: ModelConfig) -> ModelConfig:
    """The sizes of a network with other layers, as a plain transformer has them."""
    return ModelConfig(**{field.name: getattr(config, field.name) for field in fields(ModelConfig)})


def _rising(products: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Fewer rows never take longer: where they seem to, something disturbed the measurement."""
    least = list(accumulate((seconds for _, seconds in reversed(products)), min))
    return [(rows, seconds) for (rows, _), seconds in zip(products, reversed(least), strict=True)]


def _memory(device: torch.device) -> int | None:
    """All bytes of it, those in use included."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    names = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    known = hasattr(os, "sysconf") and all(name in os.sysconf_names for name in names)
    return os.sysconf(names[0]) * os.sysconf(names[1]) if known else None


@dataclass(frozen=True)
class _Product:
    """A matrix of the model's shape, as the loader would lay it out."""

    run: nn.Module
    inner: int
    outer: int


def _matrices(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Iterator[_Product]:
    """The products of as many layers as the probe's memory holds, at least one."""
    shapes = list(_shapes(config))
    size = dtype.itemsize * sum(inner * outer for inner, outer in shapes)
    for _ in range(max(1, min(config.num_layers, PROBE_BYTES // size))):
        for inner, outer in shapes:
            weight = torch.ones(outer, inner, dtype=dtype, device=device)
            yield _Product(_laid_out(weight, None), inner, outer)


def _shapes(config: ModelConfig) -> Iterable[tuple[int, int]]:
    """(in, out) of a layer's products; of a layer with experts, those of one of them."""
    inner = config.intermediate_size if config.moe is None else config.moe.expert_size
    return product_sizes(replace(config, intermediate_size=inner, moe=None)).values()


def _laid_out(weight: Tensor, bias: nn.Parameter | None) -> nn.Module:
    if can_pack(weight.device, weight.dtype):
        return PackedLinear(weight, bias)
    linear = Linear(weight.shape[1], weight.shape[0])
    linear.weight, linear.bias = nn.Parameter(weight, requires_grad=False), bias
    return linear


def _weight_s(matrices: Sequence[_Product], rows: int, dtype: torch.dtype, device: torch.device) -> float:
    """Seconds per weight of products with `rows` rows."""
    inputs = {size: torch.ones(rows, size, dtype=dtype, device=device) for size in {each.inner for each in matrices}}

    def run() -> None:
        for each in matrices:
            each.run(inputs[each.inner])

    return best_time(run, device, seconds=SECONDS) / sum(each.inner * each.outer for each in matrices)


def _rest(
    config: ModelConfig, machine: Machine, dtype: torch.dtype, device: torch.device
) -> tuple[float, float, float]:
    """Seconds per layer, per layer and token, per layer and sequence for what is no product, from real passes.

    What a layer and a sequence cost is seen best where the products are next to nothing, in a narrow network.
    """
    dense = replace(config, num_layers=min(LAYERS, config.num_layers), vocab_size=64, moe=None)
    narrow = _narrow(config)
    layer, layers = (_pass_s(narrow, batch, 1, dtype, device) for batch in (1, WINDOWS))
    window = max(0.0, layers - layer) / (WINDOWS - 1)
    products = sum(inner * outer for inner, outer in _shapes(dense)) * machine.weight_s(TOKENS, dtype.itemsize)
    attention = 4.0 * config.query_size * TOKENS * (TOKENS + CONTEXT) / (machine.attention_rate or machine.matrix_rate)
    token = max(0.0, _pass_s(dense, 1, TOKENS, dtype, device) - products - attention - layer) / TOKENS
    return max(0.0, layer - window), token, window


def _attention_rate(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> float | None:
    """From what more columns cost the same rows; None where it cannot be told from nothing."""
    narrow = _narrow(config)
    more = FAR * CONTEXT
    short, long = (_pass_s(narrow, 1, TOKENS, dtype, device, context) for context in (CONTEXT, more))
    operations = 4.0 * config.query_size * TOKENS * (more - CONTEXT)
    return operations / (long - short) if long > short else None


def _narrow(config: ModelConfig) -> ModelConfig:
    """Next to no products, and everything else as in the model."""
    layers = min(LAYERS, config.num_layers)
    return replace(config, num_layers=layers, vocab_size=64, moe=None, hidden_size=64, intermediate_size=64)


def _pass_s(
    config: ModelConfig, batch: int, rows: int, dtype: torch.dtype, device: torch.device, context: int = CONTEXT
) -> float:
    """Seconds of a pass per layer; every sequence has `context` stored columns before its rows."""
    runner = Runner(_network(config, dtype, device))
    windows = [_window(rows, context) for _ in range(batch)]
    storages = [runner.storage(context + rows) for _ in range(batch)]
    return best_time(lambda: runner.forward(windows, storages), device, seconds=SECONDS) / config.num_layers


def _network(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Transformer:
    network = Transformer(config).to(device=device, dtype=dtype).requires_grad_(False)
    for parameter in network.parameters():
        parameter.fill_(0.01)
    for owner in list(network.modules()):
        for name, linear in list(owner.named_children()):
            if isinstance(linear, Linear):
                setattr(owner, name, _laid_out(linear.weight, linear.bias))
    return network.eval()


def _window(rows: int, context: int) -> Window:
    return Window(
        ids=torch.zeros(rows, dtype=torch.int64),
        start=context,
        visible=context + rows,
        rows=torch.arange(rows),
        attention="bidirectional",
    )
