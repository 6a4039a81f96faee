"""What an engine runs to find seams: the canvases of every pass that committed several slots, and their fold."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from anyorder.canvas import Canvas
from anyorder.decoders.base import DecoderBase
from anyorder.decoders.choose import Sampling
from anyorder.decoders.scorers import refuse_nan
from anyorder.draws import wide_dtype
from anyorder.events import Event
from anyorder.policies.score import log_probabilities
from anyorder.seams.gaps import gap_of, known_sets
from anyorder.seams.replay import JointCommit
from anyorder.seams.report import Seam
from anyorder.window import Window


class SeamScorer(DecoderBase):
    """Driven like a decoder, decides nothing; says a `Seam` for every measured pass.

    Args:
        canvas: the finished one.
        commits: from `joint_commits`, in the order of the passes.
        sampling: of the request: its biases and bans hold.
        tokens: fed per pass at most, at least one canvas.
    """

    def __init__(self, canvas: Canvas, commits: Iterable[JointCommit], sampling: Sampling, *, tokens: int) -> None:
        super().__init__(canvas, end=len(canvas), stop_ids=())
        self.commits = list(commits)
        self.sampling = sampling
        self.tokens = tokens
        self.windows = 0
        self.done = 0  # commits
        self.found: list[Tensor] = []  # of the present commit, [canvases, n] each
        self.known = torch.empty((0, 0), dtype=torch.bool)  # canvases of it that are still to be asked about
        self._next()

    @property
    def widest(self) -> int:
        """Tokens of the longest canvas that is asked about."""
        return max((commit.window.ids.shape[0] for commit in self.commits), default=0)

    def _begin(self) -> list[Event]:
        return [] if self.commits else self.finish("length")

    def _next(self) -> None:
        if self.done < len(self.commits):
            self.known = known_sets(self.commits[self.done].slots.shape[0])

    def plan(self) -> list[Window]:
        """The next canvases of the present commit."""
        commit = self.commits[self.done]
        self.asked = self.known[: max(1, self.tokens // commit.window.ids.shape[0])]
        self.windows += self.asked.shape[0]
        return self.count([commit.window.showing(commit.slots[row], commit.ids[row]) for row in self.asked])

    def decide(self, rows: list[Tensor]) -> Tensor:
        """[1, canvases x n] on the device of the rows: log-probabilities of the committed ids."""
        ids = self.commits[self.done].ids.to(rows[0].device, non_blocking=True)
        found = [log_probabilities(self.sampling.adjust(each), ids)[0] for each in rows]
        return torch.cat(found)[None].to(wide_dtype(rows[0].device))

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`: folds what is complete."""
        refuse_nan(decision)
        self.passes += 1
        self.found.append(decision[0].double().view(self.asked.shape))
        self.known = self.known[self.asked.shape[0] :]
        if self.known.shape[0]:
            return []
        gap = gap_of(self.commits[self.done], torch.cat(self.found))
        self.found, self.done = [], self.done + 1
        self._next()
        seam = Seam(self.canvas.request, gap)
        return [seam] if self.done < len(self.commits) else [seam, *self.finish("length")]
