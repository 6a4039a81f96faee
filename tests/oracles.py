"""Small distributions whose every conditional is known, in the place of a model.

An oracle answers a window with the exact conditional marginals of each wanted slot, given the committed tokens that the
window lets its row see (a mask id is an unknown). The real decoders and the real engine run against it, so what they
sample can be compared with a joint distribution that is known to the last digit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.window import Window

Canvas = tuple[int, ...]
Law = dict[Canvas, float]
"""Probability of every complete canvas."""

_TINY = 1e-30  # of an impossible token: its logit stays finite, as a network's would


@dataclass(frozen=True)
class Joint:
    """A distribution over L slots of V symbols; the mask id is V, one behind the symbols.

    Attributes:
        support: [N, L] int64, the canvases that can occur.
        probability: [N] float64.
    """

    support: Tensor
    probability: Tensor
    num_symbols: int

    @property
    def length(self) -> int:
        return self.support.shape[1]

    @property
    def mask_id(self) -> int:
        return self.num_symbols

    def law(self) -> Law:
        return {tuple(row): p for row, p in zip(self.support.tolist(), self.probability.tolist(), strict=True)}

    def weights(self, known: Tensor) -> Tensor:
        """[B, N] probability of every canvas given [B, L] tokens, the mask id where nothing is known.

        A row that is impossible is told nothing: it gets the prior.
        """
        matches = ((known[:, None] == self.support) | (known[:, None] == self.mask_id)).all(-1)
        weights = matches * self.probability
        total = weights.sum(-1, keepdim=True)
        return torch.where(total > 0, weights / total, self.probability)

    def marginals(self, known: Tensor) -> Tensor:
        """[B, L, V] conditional marginals given [B, L] tokens."""
        onehot = torch.nn.functional.one_hot(self.support, self.num_symbols).double()  # [N, L, V]
        return (self.weights(known) @ onehot.flatten(1)).unflatten(-1, (self.length, self.num_symbols))

    def entropy(self, known: Sequence[int], slots: Sequence[int]) -> float:
        """Nats of the joint of `slots` given one canvas."""
        weights = self.weights(torch.tensor([known]))[0].tolist()
        groups: dict[Canvas, float] = {}
        for row, weight in zip(self.support[:, list(slots)].tolist(), weights, strict=True):
            groups[tuple(row)] = groups.get(tuple(row), 0.0) + weight
        return -sum(p * math.log(p) for p in groups.values() if p > 0)

    def total_correlation(self, known: Sequence[int], slots: Sequence[int]) -> float:
        """Nats lost by drawing `slots` independently: the sum of their entropies less the entropy of their joint.

        For two slots this is their mutual information.
        """
        return sum(self.entropy(known, [slot]) for slot in slots) - self.entropy(known, slots)


def enumerated(length: int, num_symbols: int, weight: Callable[[Canvas], float]) -> Joint:
    """The joint proportional to `weight`; canvases of weight zero are impossible."""
    canvases = [(c, w) for c in itertools.product(range(num_symbols), repeat=length) if (w := weight(c)) > 0]
    probability = torch.tensor([w for _, w in canvases], dtype=torch.float64)
    return Joint(torch.tensor([c for c, _ in canvases]), probability / probability.sum(), num_symbols)


def independent(marginals: Sequence[Sequence[float]]) -> Joint:
    """Slots that know nothing of each other."""
    return enumerated(
        len(marginals), len(marginals[0]), lambda c: math.prod(row[x] for row, x in zip(marginals, c, strict=True))
    )


def markov(initial: Sequence[float], transition: Sequence[Sequence[float]], length: int) -> Joint:
    """Each slot depends on the one before it."""
    return enumerated(
        length,
        len(initial),
        lambda c: initial[c[0]] * math.prod(transition[a][b] for a, b in itertools.pairwise(c)),
    )


def cities(share: float, words: int = 2) -> Joint:
    """Two names of `words` words each; committing them together mixes the names ("New Delhi", "New York")."""
    names = {(0,) * words: share, (1,) * words: 1 - share}
    return enumerated(words, 2, lambda c: names.get(c, 0.0))


def checksum(length: int, modulus: int) -> Joint:
    """All canvases whose sum is 0 modulo `modulus`, the small symbols more likely: any proper subset is free."""
    return enumerated(length, modulus, lambda c: float(sum(c) % modulus == 0) * math.prod(1 / (1 + x) for x in c))


def brackets(pairs: int) -> Joint:
    """The context-free language S -> (S)S | empty, cut to `pairs` pairs; 0 opens, 1 closes, nesting is likely."""

    def weight(canvas: Canvas) -> float:
        depth, value = 0, 1.0
        for symbol in canvas:
            depth += 1 if symbol == 0 else -1
            value *= 0.6 if symbol == 0 else 0.4
            if depth < 0:
                return 0.0
            value *= 1 + depth  # deeper canvases weigh more, so the words are not equally likely
        return value if depth == 0 else 0.0

    return enumerated(2 * pairs, 2, weight)


def scrambled(length: int, num_symbols: int, seed: int, sharpness: float = 1.5) -> Joint:
    """A joint without any structure."""
    noise = torch.randn(num_symbols**length, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    weights = iter((sharpness * noise).exp().tolist())
    return enumerated(length, num_symbols, lambda _: next(weights))


class OracleStorage:
    """What a KV storage is at the level of tokens: the id that each column was last computed from."""

    def __init__(self, capacity: int, mask_id: int) -> None:
        self.ids = [mask_id] * capacity


class OracleRunner:
    """Stands in for `anyorder.runner.Runner`.

    Args:
        joint: over the columns from `offset` on; columns outside of it mean nothing.
        shift: the row of a column predicts the slot behind it.
    """

    def __init__(self, joint: Joint, *, offset: int, shift: bool = False) -> None:
        self.joint = joint
        self.offset = offset
        self.shift = shift
        self.windows = 0

    def storage(self, capacity: int) -> OracleStorage:
        return OracleStorage(capacity, self.joint.mask_id)

    def forward(self, windows: Sequence[Window], storages: Sequence[OracleStorage | None]) -> list[Tensor]:
        """[R, V + 1] exact conditional log-marginals per window; the mask id gets the largest logit of all."""
        self.windows += len(windows)
        asked = [list(self._asked(w, s)) for w, s in zip(windows, storages, strict=True)]
        rows = [row for part in asked for row in part]
        if not rows:
            return [torch.empty((0, self.joint.num_symbols + 1), dtype=torch.float64) for _ in windows]
        marginals = self.joint.marginals(torch.tensor([known for known, _ in rows]))
        slots = torch.tensor([slot for _, slot in rows])
        logits = marginals[torch.arange(len(rows)), slots].clamp_min(_TINY).log()
        # a model may well believe in its mask token: it must not matter
        logits = torch.cat([logits, torch.full((len(rows), 1), 50.0, dtype=torch.float64)], 1)
        return list(logits.split([len(part) for part in asked]))

    def _asked(self, window: Window, storage: OracleStorage | None) -> Iterable[tuple[list[int], int]]:
        """For every wanted row: what it sees of the joint's slots, and which of them it predicts."""
        columns = window.ids.tolist()
        if window.stores:
            assert storage is not None
            if window.moved is not None:
                moved = [storage.ids[column] for column in window.moved.tolist()]
                storage.ids[window.start - len(moved) : window.start] = moved
            storage.ids[window.start : window.end] = columns
            columns = storage.ids[: window.visible]
        for row in window.rows.tolist():
            column = window.start + row
            seen = columns[: self._sight(window, column)]
            places = list(range(len(seen)))
            if window.branches is not None and (node := row - len(window.ids) + len(window.branches.sees)) >= 0:
                first = window.end - len(window.branches.sees)
                path = window.branches.sees[node].nonzero().flatten().tolist()
                seen = columns[:first] + [columns[first + other] for other in path]
                places = [*range(first), *window.branches.positions[path].tolist()]
                column, mask_id = int(window.branches.positions[node]), self.joint.mask_id
                assert len(set(places)) == len(places), "two tokens are seen at one position"
                assert mask_id in seen or column == len(seen) - 1, "a token's position is not its place in the text"
            at = dict(zip(places, seen, strict=True))
            known = [at.get(self.offset + slot, self.joint.mask_id) for slot in range(self.joint.length)]
            slot = column + int(self.shift) - self.offset
            yield known, min(max(slot, 0), self.joint.length - 1)

    def _sight(self, window: Window, column: int) -> int:
        """First column that the row of `column` does not see."""
        match window.attention:
            case "bidirectional":
                return window.visible
            case "block":
                return min((column // window.block_length + 1) * window.block_length, window.visible)
            case "causal":
                return column + 1


Step = Callable[[Canvas, Tensor], Iterable[tuple[float, Canvas]]]
"""From a canvas and its [L, V] marginals to what one pass makes of it, with probabilities."""


def law_of(joint: Joint, step: Step) -> Law:
    """The exact distribution of the canvases that a sampler ends with, by enumeration of everything it can do."""
    running: Law = {(joint.mask_id,) * joint.length: 1.0}
    finished: Law = {}
    while running:
        following: Law = {}
        for canvas, mass in running.items():
            marginals = joint.marginals(torch.tensor([canvas]))[0]
            for probability, reached in step(canvas, marginals):
                target = following if joint.mask_id in reached else finished
                target[reached] = target.get(reached, 0.0) + mass * probability
        running = following
    return finished


def choosing_slots(joint: Joint, select: Callable[[Tensor], Tensor]) -> Step:
    """A sampler that looks at the marginals, chooses slots, and draws their tokens independently.

    Args:
        select: [n, V] marginals of the open slots -> [n] bool.
    """

    def step(canvas: Canvas, marginals: Tensor) -> Iterable[tuple[float, Canvas]]:
        slots = _open(joint, canvas)
        chosen = [slot for slot, yes in zip(slots, select(marginals[slots]).tolist(), strict=True) if yes]
        yield from _draws(canvas, marginals, chosen)

    return step


def choosing_proposals(joint: Joint, select: Callable[[Tensor], Tensor]) -> Step:
    """A sampler that draws a token for every open slot first and then chooses slots by the drawn tokens' probability.

    Args:
        select: [n] probabilities of the drawn tokens -> [n] bool.
    """

    def step(canvas: Canvas, marginals: Tensor) -> Iterable[tuple[float, Canvas]]:
        slots = _open(joint, canvas)
        for probability, proposed in _draws(canvas, marginals, slots):
            confidence = torch.stack([marginals[slot, proposed[slot]] for slot in slots])
            kept = {slot for slot, yes in zip(slots, select(confidence).tolist(), strict=True) if yes}
            yield (
                probability,
                tuple(proposed[i] if i in kept or x != joint.mask_id else x for i, x in enumerate(canvas)),
            )

    return step


def in_random_sets(joint: Joint, sets: Callable[[int], Iterable[tuple[float, frozenset[int]]]]) -> Law:
    """The law of a sampler that commits sets of slots which do not depend on any token.

    Args:
        sets: pass -> (probability, slots the pass would commit if they were open); the last one names all.
    """
    states: dict[Canvas, float] = {(joint.mask_id,) * joint.length: 1.0}
    for number in itertools.count():
        if all(joint.mask_id not in canvas for canvas in states):
            return states
        following: Law = {}
        for canvas, mass in states.items():
            marginals = joint.marginals(torch.tensor([canvas]))[0]
            for chance, chosen in sets(number):
                slots = [slot for slot in _open(joint, canvas) if slot in chosen]
                for probability, reached in _draws(canvas, marginals, slots):
                    following[reached] = following.get(reached, 0.0) + mass * chance * probability
        states = following
    raise AssertionError("unreachable")


def _open(joint: Joint, canvas: Canvas) -> list[int]:
    return [slot for slot, token in enumerate(canvas) if token == joint.mask_id]


def _draws(canvas: Canvas, marginals: Tensor, slots: Sequence[int]) -> Iterable[tuple[float, Canvas]]:
    """Every way of filling `slots` independently of each other, with its probability."""
    for tokens in itertools.product(range(marginals.shape[1]), repeat=len(slots)):
        probability = math.prod(float(marginals[slot, token]) for slot, token in zip(slots, tokens, strict=True))
        if probability > 0:
            filled = list(canvas)
            for slot, token in zip(slots, tokens, strict=True):
                filled[slot] = token
            yield probability, tuple(filled)


def total_variation(p: Law, q: Law) -> float:
    """Half the sum of absolute differences."""
    return sum(abs(p.get(c, 0.0) - q.get(c, 0.0)) for c in p.keys() | q.keys()) / 2


def divergence(p: Law, q: Law) -> float:
    """KL(p || q) in nats; infinite if q misses something that p does."""
    return sum(x * math.log(x / q[c]) if q.get(c) else math.inf for c, x in p.items() if x > 0)


def chi_square(samples: Iterable[Canvas], law: Law, *, z: float = 4.0) -> tuple[float, float]:
    """Pearson's statistic of the samples against a law, and the value it exceeds by chance about once in 30 000.

    Cells that expect fewer than five samples are taken together. The bound is Wilson and Hilferty's approximation of
    the chi-square quantile at a normal quantile of `z`.
    """
    counts: dict[Canvas, int] = {}
    for sample in samples:
        counts[sample] = counts.get(sample, 0) + 1
    total = sum(counts.values())
    cells, rare_expected, rare_seen = [], 0.0, sum(n for c, n in counts.items() if not law.get(c))
    for canvas, probability in law.items():
        expected, seen = probability * total, counts.get(canvas, 0)
        if expected < 5:
            rare_expected, rare_seen = rare_expected + expected, rare_seen + seen
        else:
            cells.append((expected, seen))
    if rare_expected >= 1e-9 * total:
        cells.append((rare_expected, rare_seen))
    elif rare_seen:
        return math.inf, 0.0
    freedom = max(len(cells) - 1, 1)
    statistic = sum((seen - expected) ** 2 / expected for expected, seen in cells)
    bound = freedom * (1 - 2 / (9 * freedom) + z * math.sqrt(2 / (9 * freedom))) ** 3
    return statistic, bound
