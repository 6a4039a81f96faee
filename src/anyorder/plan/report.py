"""A plan: every figure that `anyorder plan` shows, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anyorder.errors import ParameterError
from anyorder.plan.decide import Batches, Fleet, Point, fleet, grid, million_tokens, paying
from anyorder.plan.machine import Machine
from anyorder.plan.roofline import Pass, Roofline
from anyorder.plan.sizes import Sizes


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a model and a machine."""

    context: int = 1024
    """Columns of keys and values that a sequence has, on average."""
    rows: tuple[int, ...] = (4, 8, 16, 32)
    """Block lengths, or the length of a canvas that is computed whole."""
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    """Sequences that share a pass."""
    tokens_per_forward: tuple[float, ...] = (1.5, 2.0, 3.0, 5.0)
    """Tokens that a denoising pass commits per sequence: measure yours with `anyorder sweep`."""
    load: float | None = None
    """Tokens per second to be delivered."""

    def __post_init__(self) -> None:
        for name in ("context", "rows", "batches", "tokens_per_forward", "load"):
            given = getattr(self, name)
            values = given if isinstance(given, tuple) else () if given is None else (given,)
            if not all(value > 0 for value in values) or given == ():
                raise ParameterError(f"`{name}` must be above 0, got {given!r}", param=name)
        if max(self.rows) > self.context:
            raise ParameterError(
                f"a block of {max(self.rows)} rows is longer than the context of {self.context}; raise `context`",
                param="context",
            )


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One block length at one number of tokens per forward."""

    rows: int
    tokens_per_forward: float
    speedup: float
    """Of one sequence over causal decoding."""
    pays: Batches | None
    """Batches at which it is at least as fast as causal decoding; None: never."""
    tokens_per_second: float
    """Of one sequence."""
    best_batch: int
    """The largest asked batch that fits the memory."""
    best_tokens_per_second: float
    """All its sequences together."""
    million: float | None
    """Price of a million tokens at that batch."""
    fleet: Fleet | None
    """For the asked load."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The answers."""

    sizes: Sizes
    machine: Machine
    question: Question
    points: tuple[Point, ...]
    """Only for batches that fit the memory."""
    causal: Verdict
    verdicts: tuple[Verdict, ...]
    """No block commits more tokens than it has."""

    def best(self) -> list[Verdict]:
        """For each number of tokens per forward the block length that delivers most; the shortest of equals."""
        rates = self.question.tokens_per_forward
        found = [[verdict for verdict in self.verdicts if verdict.tokens_per_forward == rate] for rate in rates]
        return [
            max(each, key=lambda verdict: (verdict.best_tokens_per_second, -verdict.rows)) for each in found if each
        ]

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        points = [{**asdict(point), "break_even": point.break_even} for point in self.points]
        return {**asdict(self), "points": points}


def plan(sizes: Sizes, machine: Machine, question: Question) -> Plan:
    """Answer a question.

    Raises:
        ParameterError: not one sequence fits the machine's memory, or a load is asked for and the memory is unknown.
    """
    roofline = Roofline(sizes=sizes, machine=machine)
    batches = _fitting(roofline, question)
    if question.load is not None and machine.memory is None:
        raise ParameterError("a load needs to know the machine's memory; give `memory`", param="memory")
    rows = [(length, tpf) for length in question.rows for tpf in question.tokens_per_forward if tpf <= length]
    return Plan(
        sizes=sizes,
        machine=machine,
        question=question,
        points=tuple(grid(roofline, batches, question.rows, question.context)),
        causal=_verdict(roofline, question, batches[-1], 1, 1.0),
        verdicts=tuple(_verdict(roofline, question, batches[-1], length, tpf) for length, tpf in rows),
    )


def _fitting(roofline: Roofline, question: Question) -> Sequence[int]:
    memory = roofline.machine.memory
    batches = sorted(question.batches)
    if memory is None:
        return batches
    most = roofline.most_sequences(question.context, memory)
    fitting = [batch for batch in batches if batch <= most]
    if fitting or question.load is not None:
        return fitting or batches[:1]
    needed = roofline.memory(batches[0], question.context)
    raise ParameterError(
        f"weights, keys and values of {batches[0]} x {question.context} tokens take {needed / 1e9:.1f} GB and the "
        f"machine has {memory / 1e9:.1f}: take fewer bits, a shorter context, or plan several machines with `load`",
        param="memory",
    )


def _verdict(roofline: Roofline, question: Question, batch: int, rows: int, tpf: float) -> Verdict:
    one = Pass(rows=rows, context=question.context)
    rate = roofline.tokens_per_second(Pass(batch=batch, rows=rows, context=question.context), tpf)
    price = roofline.machine.price
    return Verdict(
        rows=rows,
        tokens_per_forward=tpf,
        speedup=tpf / roofline.break_even(one),
        pays=paying(roofline, rows=rows, context=question.context, tokens_per_forward=tpf),
        tokens_per_second=roofline.tokens_per_second(one, tpf),
        best_batch=batch,
        best_tokens_per_second=rate,
        million=None if price is None else million_tokens(rate, price),
        fleet=None if question.load is None else _fleet(roofline, question, rows, tpf, question.load),
    )


def _fleet(roofline: Roofline, question: Question, rows: int, tpf: float, load: float) -> Fleet:
    return fleet(
        roofline.sizes,
        roofline.machine,
        rows=rows,
        context=question.context,
        tokens_per_forward=tpf,
        load=load,
        most_batch=max(question.batches),
    )
