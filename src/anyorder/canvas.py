"""The canvas: what is decided so far, slot by slot, and who decided it.

A slot is *given* (the caller wrote it), *open* (to be predicted) or *committed* (a pass decided it). Which slots are
open is known from who wrote them, never from their ids: a mask id inside a prompt is text like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch
from torch import Tensor

from anyorder.errors import ParameterError
from anyorder.events import Committed, Opened, Remasked, Revised
from anyorder.pictures import Picture, Placed

NO_MASK = -1  # stands in open slots of a model without a mask token; it is never fed


@dataclass(frozen=True, slots=True)
class Hole:
    """A gap of `length` tokens in a prompt, to be filled with what fits on both sides."""

    length: int

    def __post_init__(self) -> None:
        whole = isinstance(self.length, int) and not isinstance(self.length, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not whole or self.length < 1:
            raise ParameterError(
                f"a Hole needs at least one token, got {self.length!r}; give the number of tokens to fill",
                param="prompt",
            )


Part = int | Hole | Picture
"""What an encoded prompt is a row of; a hole and a picture take several slots."""


def count_holes(prompt: Sequence[Part]) -> int:
    """Slots of the prompt that are to be filled."""
    return sum(part.length for part in prompt if isinstance(part, Hole))


def count_slots(prompt: Sequence[Part]) -> int:
    """Slots that the prompt takes."""
    return sum(1 if isinstance(part, int) else part.length for part in prompt)


def known_keys(prompt: Sequence[Part]) -> list[int]:
    """What the slots in front of the first hole depend on: ids, and `Picture.keys`."""
    return [key for part in takewhile(lambda part: not isinstance(part, Hole), prompt) for key in _keys(part)]


def _keys(part: Part) -> list[int]:
    return part.keys if isinstance(part, Picture) else [part] if isinstance(part, int) else []


class Canvas:
    """Slots of one request, on the CPU.

    Attributes:
        ids: [L] int64, the token of every slot, `mask_id` where it is open.
        open: [L] bool, True where a token is still to be predicted.
        commit_pass: [L] int64, the pass that decided the slot, -1 where it is given or open.
        confidence: [L] float32, probability of the committed id at that pass, 0 elsewhere.
        answer_start: first slot behind the prompt.
        forced: slot -> id that the caller fixed for slots that are still to come.
        pictures: those of the prompt, in order.
    """

    def __init__(
        self,
        ids: Tensor,
        open: Tensor,
        *,
        mask_id: int,
        answer_start: int,
        request: int = 0,
        forced: Mapping[int, int] | None = None,
        pictures: Sequence[Placed] = (),
    ) -> None:
        self.forced = dict(forced or {})
        self.pictures = tuple(pictures)
        self.mask_id = mask_id
        self.answer_start = answer_start
        self.request = request
        self.ids = torch.where(open, mask_id, ids)
        self.open = open.clone()
        self.commit_pass = torch.full_like(ids, -1)
        self.confidence = torch.zeros(ids.shape, dtype=torch.float32)

    @classmethod
    def from_prompt(
        cls,
        prompt: Sequence[Part],
        *,
        mask_id: int,
        request: int = 0,
        forced: Mapping[int, int] | None = None,
    ) -> Canvas:
        """A canvas that holds the prompt only; its holes are open, everything else in it is given.

        Args:
            forced: answer offset -> id, taken over when the slots are opened.
        """
        ids: list[int] = []
        open_slots: list[bool] = []
        pictures: list[Placed] = []
        for part in prompt:
            if isinstance(part, Picture):
                pictures.append(Placed(part, len(ids)))
            length = 1 if isinstance(part, int) else part.length
            ids += [part if isinstance(part, int) else mask_id if isinstance(part, Hole) else part.token_id] * length
            open_slots += [isinstance(part, Hole)] * length
        start = len(ids)
        return cls(
            torch.tensor(ids, dtype=torch.int64),
            torch.tensor(open_slots, dtype=torch.bool),
            mask_id=mask_id,
            answer_start=start,
            request=request,
            forced={start + offset: token for offset, token in (forced or {}).items()},
            pictures=pictures,
        )

    def __len__(self) -> int:
        return self.ids.shape[0]

    def keys(self, end: int) -> list[int]:
        """What the columns up to `end` depend on: their ids, and `Picture.keys`."""
        keys: list[int] = self.ids[:end].tolist()
        for placed in (placed for placed in self.pictures if placed.start < end):
            keys[placed.start : placed.end] = placed.picture.keys
        return keys[:end]

    def grow(self, count: int) -> Opened:
        """Append `count` slots; they are open but for those the caller forced."""
        start, end = len(self), len(self) + count
        self.ids = torch.cat([self.ids, torch.full((count,), self.mask_id, dtype=torch.int64)])
        self.open = torch.cat([self.open, torch.ones(count, dtype=torch.bool)])
        self.commit_pass = torch.cat([self.commit_pass, torch.full((count,), -1, dtype=torch.int64)])
        self.confidence = torch.cat([self.confidence, torch.zeros(count)])
        given = tuple((slot, self.forced[slot]) for slot in sorted(self.forced) if start <= slot < end)
        for slot, token in given:
            self.ids[slot] = token
            self.open[slot] = False
        return Opened(self.request, start, end, given)

    @property
    def given(self) -> Tensor:
        """[L] bool, True where the caller wrote the token."""
        return ~self.open & (self.commit_pass < 0)

    @property
    def committed(self) -> Tensor:
        """[L] bool, True where a pass decided the token."""
        return self.commit_pass >= 0

    def commit(self, slots: Tensor, ids: Tensor, confidence: Tensor, pass_index: int) -> Committed:
        """Decide open slots.

        Args:
            slots: [n] int64, all of them open.
            ids: [n] int64, none of them the mask id.
            confidence: [n] float.
        """
        assert bool(self.open[slots].all()), "a decoder committed a slot that is not open"
        return Committed(self.request, pass_index, *self._write(slots, ids, confidence, pass_index))

    def revise(self, slots: Tensor, ids: Tensor, confidence: Tensor, pass_index: int) -> Revised:
        """Replace what passes committed in these slots; arguments as in `commit`."""
        assert bool(self.committed[slots].all()), "a decoder revised a slot that no pass committed"
        return Revised(self.request, pass_index, *self._write(slots, ids, confidence, pass_index))

    def remask(self, slots: Tensor, pass_index: int) -> Remasked:
        """Take back what passes committed in these slots, [n] int64: they are open again."""
        assert bool(self.committed[slots].all()), "a decoder took back a slot that no pass committed"
        self.ids[slots] = self.mask_id
        self.open[slots] = True
        self.commit_pass[slots] = -1
        self.confidence[slots] = 0
        return Remasked(self.request, pass_index, tuple(slots.tolist()))

    def _write(
        self, slots: Tensor, ids: Tensor, confidence: Tensor, pass_index: int
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]:
        self.ids[slots] = ids
        self.open[slots] = False
        self.commit_pass[slots] = pass_index
        self.confidence[slots] = confidence.float()
        return tuple(slots.tolist()), tuple(ids.tolist()), tuple(confidence.float().tolist())

    def open_slots(self, start: int = 0, end: int | None = None) -> Tensor:
        """[n] int64: the open slots in `start` to `end - 1`, ascending."""
        return self.open[start:end].nonzero().squeeze(-1) + start

    def is_filled(self, start: int = 0, end: int | None = None) -> bool:
        """True if no slot in `start` to `end - 1` is open."""
        return not bool(self.open[start:end].any())

    def first_stop(self, stop_ids: Tensor) -> int | None:
        """The first answer slot that a pass filled with one of `stop_ids`; the prompt's own text does not count."""
        start = self.answer_start
        hits = (self.commit_pass[start:] >= 0) & torch.isin(self.ids[start:], stop_ids)
        found = hits.nonzero()
        return int(found[0]) + start if found.numel() else None
