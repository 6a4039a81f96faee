"""Random draft trees, and what they mean spelled out as lists of tokens."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from anyorder.decoders.draft import DraftTree


def random_tree(rng: random.Random, *, most: int, depth: int, vocabulary: int) -> DraftTree:
    """Nodes behind random earlier ones, none twice, none deeper than `depth`."""
    tokens, parents, depths = list[int](), list[int](), list[int]()
    for _ in range(rng.randint(0, most)):
        parent, token = rng.randint(-1, len(tokens) - 1), rng.randrange(vocabulary)
        at = 1 if parent < 0 else depths[parent] + 1
        if at <= depth and (parent, token) not in zip(parents, tokens, strict=True):
            tokens.append(token)
            parents.append(parent)
            depths.append(at)
    return DraftTree(tuple(tokens), tuple(parents))


@st.composite
def trees(draw: st.DrawFn, *, most: int = 12, depth: int = 5, vocabulary: int = 3) -> DraftTree:
    return random_tree(random.Random(draw(st.integers(0, 2**32))), most=most, depth=depth, vocabulary=vocabulary)


def paths(tree: DraftTree) -> list[tuple[int, ...]]:
    """The tokens from the text to every node."""
    found: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found
