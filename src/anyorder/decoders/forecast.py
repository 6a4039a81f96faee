"""What a denoiser says about the tokens ahead: masks are fed behind nodes of a draft, in the pass that verifies it.

Whatever part of the draft is accepted, the next draft is then already guessed, and there is no second pass. The rows
that verify never see a mask, and the adapter is off for them: the text does not depend on the denoiser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.decoders.draft import DraftTree, Guesses
from anyorder.draws import wide_dtype
from anyorder.window import Branches

Forecast = Mapping[int, float]
"""Probability of the tokens that may stand at one place ahead."""

WIDTH = 16
"""Tokens of a forecast; the rest have little chance each."""


@dataclass(frozen=True, slots=True)
class Masks:
    """Groups of masks, each behind the text or behind a node of a tree."""

    anchors: tuple[int, ...] = ()
    """A node, or -1: the text."""
    length: int = 0
    """Masks of a group: the first one's row guesses two tokens ahead of the anchor, as the anchor's own row is certain
    of the next one."""

    def __len__(self) -> int:
        return len(self.anchors) * self.length

    def extend(self, tree: DraftTree, lineage: Tensor, text_end: int) -> Branches:
        """The branches of a window that feeds the tree and the masks behind it.

        A mask sees what its anchor sees, the anchor, and its own group both ways, as it was trained
        (`anyorder.training.objectives.drafting`).

        Args:
            lineage: [N, N] bool of the tree.
            text_end: column of the text's last token.
        """
        nodes, total = len(tree), len(tree) + len(self)
        depths = tree.depths()
        positions = list(depths)
        sees = torch.zeros(total, total, dtype=torch.bool)
        sees[:nodes, :nodes] = lineage
        for number, anchor in enumerate(self.anchors):
            start = nodes + number * self.length
            group = slice(start, start + self.length)
            positions += [(depths[anchor] if anchor >= 0 else 0) + ahead for ahead in range(1, self.length + 1)]
            sees[group, group] = True
            if anchor >= 0:
                sees[group, :nodes] = lineage[anchor]
        return Branches(positions=text_end + torch.tensor(positions, dtype=torch.int64), sees=sees)

    def pack(self, rows: Tensor, mask_id: int) -> Tensor:
        """The most probable tokens of every mask's row in the form of a decision, so that they travel with it.

        Args:
            rows: [M, V] logits of the masks.
        Returns:
            [3, M * WIDTH]: ids, probabilities, 0.
        """
        rows[:, mask_id] = -torch.inf
        chances, ids = rows.float().softmax(-1).topk(min(WIDTH, rows.shape[-1]), -1)
        wide = wide_dtype(rows.device)
        return torch.stack(
            [ids.to(wide).flatten(), chances.to(wide).flatten(), torch.zeros_like(chances).to(wide).flatten()]
        )

    def unpack(self, packed: Tensor, anchor: int) -> tuple[Forecast, ...]:
        """One forecast per mask behind `anchor`, the nearest first; () where none were fed.

        Args:
            packed: [3, M * WIDTH] of `pack`, on the CPU.
        """
        if anchor not in self.anchors:
            return ()
        own = packed.view(3, len(self.anchors), self.length, -1)[:2, self.anchors.index(anchor)]
        return tuple(
            dict(zip(ids, chances, strict=True))
            for ids, chances in zip(own[0].to(torch.int64).tolist(), own[1].tolist(), strict=True)
        )


def likely_ends(tree: DraftTree, most: int) -> tuple[int, ...]:
    """Where acceptance most likely ends: up to `most` nodes (-1: the text), the likeliest first.

    It ends at a node if the node is accepted and none of its children is.
    """
    chances = tree.chances or (0.0,) * len(tree)  # a tree that says none most likely fails at once
    ends = [1.0, *chances]
    for parent, chance in zip(tree.parents, chances, strict=True):
        ends[parent + 1] -= chance
    order = sorted(range(len(ends)), key=lambda place: -ends[place])
    return tuple(place - 1 for place in order[:most])


@dataclass(frozen=True, slots=True)
class Blend:
    """How guesses and a forecast of the same place become one: a product of powers, as both must agree.

    The guesses know the token before and nothing of what the text is about; the forecast knows the text and not the
    token before. The numbers are the likeliest of a grid, on 72 conversations of the default model that neither its
    table nor its adapter has seen.
    """

    guessed: float = 0.7
    """Power of the guesses' chance."""
    forecast: tuple[float, ...] = (0.9, 0.7)
    """Power of the forecast's probability, by how far ahead it is; the last one for all further ones."""
    least: float = 3e-3
    """Chance of what one of the two does not know."""
    mass: float = 0.95
    """Chance of all tokens together that one of the two knows."""

    def blended(self, guesses: Guesses, forecasts: Sequence[Forecast]) -> Guesses:
        """Guesses that know the forecasts; `forecasts[i]` is of the place i + 1 behind the text."""

        def both(context: Sequence[int], floor: float, depth: int) -> list[tuple[float, int]]:
            if depth > len(forecasts):
                return guesses(context, floor, depth)
            ahead = forecasts[depth - 1]
            known = {token: chance for chance, token in guesses(context, self.least, depth)}
            power = self.forecast[min(depth, len(self.forecast)) - 1]
            scores = {
                token: (known.get(token, 0.0) + self.least) ** self.guessed
                * (ahead.get(token, 0.0) + self.least) ** power
                for token in known.keys() | ahead.keys()
            }
            scale = self.mass / sum(scores.values())
            found = [(score * scale, token) for token, score in scores.items() if score * scale >= floor]
            return sorted(found, reverse=True)

        return both
