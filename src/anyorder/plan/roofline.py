"""Seconds of a pass: every weight is read once and multiplied with every row, keys and values are read per sequence.

The roofline of Williams, Waterman and Patterson (CACM 52, 2009): a product takes as long as the slower of reading its
matrix and doing its operations. A causal pass feeds one token per sequence, a denoising pass a block; the product of
few rows costs what reading costs, so a block is nearly free until rows, times sequences, reach the ridge.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyorder.plan.machine import Machine
from anyorder.plan.sizes import Sizes


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What one pass feeds."""

    batch: int = 1
    """Sequences that share it."""
    rows: int = 1
    """Tokens that each of them feeds: 1 causal, a block or a whole canvas otherwise."""
    context: int = 0
    """Columns that each of them sees, its own rows included."""
    wanted: float | None = None
    """Rows of each that want logits, on average; None: (rows + 1) / 2, as a block that opens full and ends decided."""

    @property
    def logits(self) -> float:
        """Rows of the output head."""
        return self.batch * ((self.rows + 1) / 2 if self.wanted is None else self.wanted)


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """A model on a machine."""

    sizes: Sizes
    machine: Machine

    def seconds(self, p: Pass) -> float:
        """Of one pass."""
        return self._products(p) + self._attention(p) + self._rest(p)

    def _products(self, p: Pass) -> float:
        sizes, machine, tokens = self.sizes, self.machine, p.batch * p.rows
        seconds = sizes.dense * machine.weight_s(tokens, sizes.itemsize)
        seconds += sizes.head * machine.weight_s(p.logits, sizes.itemsize)
        if sizes.experts is not None:
            hit = sizes.experts.hit(tokens)
            seconds += (
                hit * sizes.experts.weights * machine.weight_s(tokens * sizes.experts.top_k / hit, sizes.itemsize)
            )
        return seconds

    def _attention(self, p: Pass) -> float:
        columns = p.batch * p.context
        reading = columns * self.sizes.kv_bytes / self.machine.bandwidth
        operations = 4.0 * self.sizes.query_size * self.sizes.layers * p.rows * columns
        return max(reading, operations / (self.machine.attention_rate or self.machine.matrix_rate))

    def _rest(self, p: Pass) -> float:
        machine = self.machine
        return self.sizes.layers * (machine.layer_s + p.batch * (machine.window_s + p.rows * machine.token_s))

    def break_even(self, block: Pass) -> float:
        """Tokens per forward from which denoising passes are faster than causal ones for as many sequences."""
        return self.seconds(block) / self.seconds(self.causal(block))

    def causal(self, block: Pass) -> Pass:
        """The pass of one token per sequence in the place of a block's."""
        return Pass(batch=block.batch, rows=1, context=block.context, wanted=1)

    def tokens_per_second(self, p: Pass, tokens_per_forward: float) -> float:
        """Over all sequences of the pass."""
        return p.batch * tokens_per_forward / self.seconds(p)

    def memory(self, batch: int, context: int) -> float:
        """Bytes of weights, keys and values."""
        return self.sizes.weight_bytes + batch * context * self.sizes.kv_bytes

    def most_sequences(self, context: int, memory: float) -> int:
        """How many fit into `memory` bytes beside the weights; 0 if not even those do."""
        left = memory - self.sizes.weight_bytes
        return max(0, int(left // (context * self.sizes.kv_bytes)))
