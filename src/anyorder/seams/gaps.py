"""The independence gap of one pass: which canvases to ask a model about, and what its answers come to.

Of n slots that a pass committed together the model is asked about 2n - 1 canvases: none of them known, the first k in
a chain, and each alone. The rest of the canvas stays as the pass saw it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.seams.replay import JointCommit
from anyorder.seams.report import Pair, PassGap


def known_sets(n: int) -> Tensor:
    """[2n - 1, n] bool: which of the slots each canvas knows.

    Row 0 knows nothing, row 1 + i slot i alone, and row n + k the first k + 1 slots (k = 1 to n - 2; the first slot
    alone is row 1).
    """
    nothing = torch.zeros((1, n), dtype=torch.bool)
    chain = torch.ones((n, n), dtype=torch.bool).tril()[1 : n - 1]
    return torch.cat([nothing, torch.eye(n, dtype=torch.bool), chain])


def gap_of(commit: JointCommit, logprobs: Tensor) -> PassGap:
    """Fold the answers.

    Args:
        logprobs: [2n - 1, n] float64 nats, the log-probability of every slot's committed id on each canvas of
            `known_sets`; where the slot is known the value is not read.
    """
    n = commit.slots.shape[0]
    alone, given = logprobs[0], logprobs[1 : 1 + n]
    chain_rows = torch.cat([torch.tensor([0, 1]), torch.arange(1 + n, 2 * n - 1)])[:n]
    chain = logprobs[chain_rows, torch.arange(n)]
    gains = given - alone  # [known, asked]
    return PassGap(
        pass_index=commit.pass_index,
        slots=tuple(sorted(commit.slots.tolist())),
        product=float(alone.sum()),
        chain=float(chain.sum()),
        pairs=_pairs(commit, (gains + gains.T) / 2),
    )


def _pairs(commit: JointCommit, gains: Tensor) -> tuple[Pair, ...]:
    slots, ids, values = commit.slots.tolist(), commit.ids.tolist(), gains.tolist()
    in_order = sorted(range(len(slots)), key=slots.__getitem__)
    pairs = [
        Pair((slots[a], slots[b]), (ids[a], ids[b]), values[a][b])
        for number, a in enumerate(in_order)
        for b in in_order[number + 1 :]
    ]
    return tuple(sorted(pairs, key=lambda pair: (pair.gain, pair.slots)))
