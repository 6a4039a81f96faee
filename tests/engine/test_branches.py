"""A window that goes on from the text in several ways: every row is that of its own path, computed alone."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoders.trees import paths, trees
from tests.engine.tiny import VOCABULARY, tiny

from anyorder.decoders.draft import DraftTree
from anyorder.runner import Runner
from anyorder.window import Branches, Window


def branching(text: list[int], tree: DraftTree, *, start: int, stores: bool) -> Window:
    """The text from `start` on and the tree behind it; a row for the text's end and for every node."""
    fed = text[start:]
    positions = len(text) - 1 + torch.tensor(tree.depths(), dtype=torch.int64)
    return Window(
        ids=torch.tensor([*fed, *tree.tokens]),
        start=start,
        visible=len(text) + len(tree),
        rows=torch.arange(len(fed) - 1, len(fed) + len(tree)),
        attention="causal",
        branches=Branches(positions=positions, sees=tree.lineage()) if len(tree) else None,
        stores=stores,
    )


def alone(runner: Runner, ids: list[int]) -> torch.Tensor:
    """The last row of a plain pass."""
    window = Window(
        ids=torch.tensor(ids), start=0, visible=len(ids), rows=torch.tensor([len(ids) - 1]), attention="causal",
        stores=False,
    )  # fmt: skip
    return runner.forward([window], [None])[0][0]


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@settings(max_examples=40)
@given(tree=trees(most=14, vocabulary=VOCABULARY), seed=st.integers(0, 99), stores=st.booleans())
@torch.inference_mode()
def test_every_row_is_that_of_its_path(
    family: str, dtype: torch.dtype, tree: DraftTree, seed: int, stores: bool
) -> None:
    rng = random.Random(seed)
    runner = Runner(tiny(family, dtype=dtype).network)
    text = [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 9))]
    storage, start = (runner.storage(40), rng.randrange(len(text))) if stores else (None, 0)
    if storage is not None and start:
        whole = torch.arange(start)
        front = Window(ids=torch.tensor(text[:start]), start=0, visible=start, rows=whole, attention="causal")
        runner.forward([front], [storage])
    neighbour = Window(
        ids=torch.tensor([5, 6]), start=0, visible=2, rows=torch.tensor([1]), attention="causal", stores=False
    )
    windows, storages = [neighbour, branching(text, tree, start=start, stores=stores)], [None, storage]
    rows = runner.forward(windows, storages)[1]
    expected = torch.stack([alone(runner, [*text, *path]) for path in [(), *paths(tree)]])
    assert torch.allclose(rows, expected, atol=1e-10 if dtype == torch.float64 else 1e-4)
    assert rows.shape == expected.shape
