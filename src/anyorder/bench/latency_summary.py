"""From the records of a case to how its answers came. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anyorder.bench.records import Record
from anyorder.bench.release import release
from anyorder.bench.summary import Percentiles, Summary, summarise


@dataclass(frozen=True, kw_only=True)
class Latency:
    """How the answers of one case came. Failed requests are counted in `served`; figures are of answered ones, and
    answers without text have none."""

    served: Summary
    """Requests, errors by kind, tokens: as of a load."""
    snapshots: int
    """Answers that came as snapshots."""
    first_s: Percentiles | None
    """To the first text that was shown."""
    clause_s: Percentiles | None
    """To a first clause or sentence that stays."""
    sentence_s: Percentiles | None
    half_s: Percentiles | None
    """Until half of the text was there for good."""
    last_s: Percentiles | None
    chunks: Percentiles | None
    """Per answer."""
    chunk_chars: Percentiles | None
    """Of all chunks of all answers."""
    chunk_words: Percentiles | None
    late_share: Percentiles | None
    """Of the characters of an answer, those that came in the last 10 % of its time."""
    changed_share: Percentiles | None
    """Of the characters shown before the end, those that were not at their place in the final text."""
    changed_answers: int
    """Answers with any."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def latency(case: str, records: Sequence[Record]) -> Latency:
    """The figures of the records of one case."""
    good = [record for record in records if record.error is None]
    found = [each for each in map(release, good) if each.text]
    chunks = [chunk.text for each in found for chunk in each.chunks]
    return Latency(
        served=summarise(case, records),
        snapshots=sum(record.snapshots for record in good),
        **{
            name: Percentiles.of([value for each in found if (value := getattr(each, name)) is not None])
            for name in ("first_s", "clause_s", "sentence_s", "half_s", "last_s", "late_share")
        },
        chunks=Percentiles.of([float(len(each.chunks)) for each in found]),
        chunk_chars=Percentiles.of([float(len(chunk)) for chunk in chunks]),
        chunk_words=Percentiles.of([float(len(chunk.split())) for chunk in chunks]),
        changed_share=Percentiles.of([each.changed / each.shown if each.shown else 0.0 for each in found]),
        changed_answers=sum(each.changed > 0 for each in found),
    )
