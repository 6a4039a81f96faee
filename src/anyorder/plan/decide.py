"""From a roofline to the figures that a decision needs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from anyorder.plan.machine import Machine
from anyorder.plan.roofline import Pass, Roofline
from anyorder.plan.sizes import Sizes

MOST_SEQUENCES = 65536
"""Batches beyond it are not looked at."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """Causal and denoising passes for as many sequences."""

    batch: int
    rows: int
    causal_s: float
    block_s: float

    @property
    def break_even(self) -> float:
        """Tokens per forward at which both are equally fast."""
        return self.block_s / self.causal_s


def grid(roofline: Roofline, batches: Iterable[int], rows: Iterable[int], context: int) -> list[Point]:
    """A point for each batch and block length."""
    return [
        Point(
            batch=batch,
            rows=length,
            causal_s=roofline.seconds(Pass(batch=batch, context=context)),
            block_s=roofline.seconds(Pass(batch=batch, rows=length, context=context)),
        )
        for batch in batches
        for length in rows
    ]


@dataclass(frozen=True, slots=True)
class Batches:
    """Numbers of sequences per pass."""

    first: int
    last: int | None
    """None: no end was found up to `MOST_SEQUENCES`."""


def paying(roofline: Roofline, *, rows: int, context: int, tokens_per_forward: float) -> Batches | None:
    """The batches at which denoising is at least as fast as causal decoding; None: there are none.

    Dense models pay from one sequence up to some batch. A pass of many rows reads more experts than one of few, so that
    a mixture may pay in the middle only.
    """
    found = [
        batch
        for batch in _tried()
        if roofline.break_even(Pass(batch=batch, rows=rows, context=context)) <= tokens_per_forward
    ]
    if not found:
        return None
    return Batches(found[0], None if found[-1] == MOST_SEQUENCES else found[-1])


def _tried() -> list[int]:
    """Every batch up to 256, then in steps of 1 %."""
    batches = list(range(1, 257))
    while batches[-1] < MOST_SEQUENCES:
        batches.append(min(MOST_SEQUENCES, batches[-1] * 101 // 100))
    return batches


def million_tokens(tokens_per_second: float, price: float) -> float:
    """What a million tokens cost at a price per hour."""
    return price / 3600 * 1e6 / tokens_per_second


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Accelerators for a load."""

    shards: int
    """That one copy of the model is spread over because it does not fit fewer."""
    copies: int
    batch: int
    """Sequences per copy and pass."""
    tokens_per_second: float
    """That all copies deliver."""

    @property
    def accelerators(self) -> int:
        return self.shards * self.copies


def fleet(
    sizes: Sizes, machine: Machine, *, rows: int, context: int, tokens_per_forward: float, load: float, most_batch: int
) -> Fleet:
    """The fewest accelerators that deliver `load` tokens per second with `rows` fed per sequence and pass.

    Shards are taken to read and multiply side by side at no cost of their own: real ones take longer.

    Args:
        machine: with `memory`.
        most_batch: sequences that a pass may hold.
    """
    assert machine.memory is not None
    shards = max(1, math.ceil((sizes.weight_bytes + context * sizes.kv_bytes) / machine.memory))
    roofline = Roofline(sizes=sizes, machine=sharded(machine, shards))
    batch = min(most_batch, roofline.most_sequences(context, machine.memory * shards))
    each = roofline.tokens_per_second(Pass(batch=batch, rows=rows, context=context), tokens_per_forward)
    copies = max(1, math.ceil(load / each))
    return Fleet(shards=shards, copies=copies, batch=batch, tokens_per_second=copies * each)


def sharded(machine: Machine, shards: int) -> Machine:
    """So many of them as if they were one."""
    return Machine(
        name=machine.name if shards == 1 else f"{shards} x {machine.name}",
        bandwidth=machine.bandwidth * shards,
        matrix_rate=machine.matrix_rate * shards,
        attention_rate=None if machine.attention_rate is None else machine.attention_rate * shards,
        memory=None if machine.memory is None else machine.memory * shards,
        price=None if machine.price is None else machine.price * shards,
        measured=machine.measured,
        products=tuple((rows, seconds / shards) for rows, seconds in machine.products),
        layer_s=machine.layer_s,
        token_s=machine.token_s / shards,
        window_s=machine.window_s,
    )
