"""How the text of one answer came: when which part of it was there for good, and what was shown that did not stay.

Text that is only added to is there for good at once. Of snapshots, each of which stands in place of the one before, the
leading part that no later snapshot changed is; only in hindsight is it known which one that was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from anyorder.bench.records import Record

TOGETHER_S = 0.01
"""Pieces that come within this time of the first of them are one chunk to whoever reads or speaks them."""
LATE = 0.1
"""The last part of the time, whose share of the text is told."""
_CLOSING = r"[\"'”’»)\]]*"
_SENTENCE = re.compile(rf"\w.*?(?:[.!?…]+{_CLOSING}\s|[。！？]|\n)", re.DOTALL)
_CLAUSE = re.compile(rf"\w.*?(?:[.!?…,;:–—]+{_CLOSING}\s|[。！？，、；：]|\n)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Text that came at once."""

    at_s: float
    """Since the request was due."""
    text: str


@dataclass(frozen=True, kw_only=True)
class Release:
    """How one answer came; times in seconds since it was due."""

    text: str
    """The whole answer."""
    chunks: Sequence[Chunk]
    """What was there for good, together the whole answer."""
    first_s: float | None
    """Until the first text was shown, whether or not it stayed; None without any."""
    clause_s: float | None
    """Until there was a clause or sentence for good and its end was sure: something that can be spoken."""
    sentence_s: float | None
    """Until there was a whole sentence."""
    half_s: float | None
    """Until half of the characters were there for good."""
    last_s: float
    late_share: float | None
    """The part of the characters that came in the last 10 % of the time."""
    shown: int
    """Characters shown, over all states of the text that were followed by another."""
    changed: int
    """Those among them that were not, at their place, in the final text."""


def release(record: Record) -> Release:
    """How the answer of a record came that has its `pieces`."""
    times = list(accumulate([record.first_s or 0.0, *record.gaps_s])) if record.pieces else []
    frames = list(record.pieces) if record.snapshots else list(accumulate(record.pieces))
    text = frames[-1] if frames else ""
    stable = _stable(frames, text)
    steps = list(zip(times, stable, strict=True))
    early_s = (1 - LATE) * _until(steps, len(text), record.last_s)
    early = max((length for time, length in steps if time <= early_s), default=0)
    return Release(
        text=text,
        chunks=_chunks(steps, text),
        first_s=next((time for time, frame in zip(times, frames, strict=True) if frame), None),
        clause_s=_until(steps, _end(_CLAUSE, text), record.last_s) if text else None,
        sentence_s=_until(steps, _end(_SENTENCE, text), record.last_s) if text else None,
        half_s=_until(steps, (len(text) + 1) // 2, record.last_s) if text else None,
        last_s=record.last_s,
        late_share=1 - early / len(text) if text else None,
        shown=sum(map(len, frames[:-1])),
        changed=sum(_misplaced(frame, text) for frame in frames[:-1]),
    )


def _stable(frames: Sequence[str], text: str) -> list[int]:
    """Characters at the beginning of each frame that no later one changed."""
    kept = [_common(frame, text) for frame in frames]
    return list(accumulate(reversed(kept), min))[::-1]


def _common(left: str, right: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _misplaced(frame: str, text: str) -> int:
    return sum(a != b for a, b in zip(frame, text, strict=False)) + max(len(frame) - len(text), 0)


def _chunks(steps: Sequence[tuple[float, int]], text: str) -> list[Chunk]:
    """The text in the parts in which it came, those that came together as one."""
    grown = [(time, before, after) for (_, before), (time, after) in pairwise([(0.0, 0), *steps]) if after > before]
    chunks: list[Chunk] = []
    for time, before, after in grown:
        if chunks and time - chunks[-1].at_s <= TOGETHER_S:
            chunks[-1] = Chunk(at_s=chunks[-1].at_s, text=chunks[-1].text + text[before:after])
        else:
            chunks.append(Chunk(at_s=time, text=text[before:after]))
    return chunks


def _end(pattern: re.Pattern[str], text: str) -> int | None:
    """Where the first part ends, with the blank behind it that makes its end sure; None: with the text."""
    found = pattern.search(text)
    return found.end() if found else None


def _until(steps: Sequence[tuple[float, int]], length: int | None, end: float) -> float:
    """When so many characters were there; without a length, when there were to be no more."""
    return end if length is None else next((time for time, grown in steps if grown >= length), end)
