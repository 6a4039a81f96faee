"""From the records of single answers to the figures of a sweep: a pure function, so a page stands at any moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from anyorder.reporting.journal import Record
from anyorder.reporting.statistics import Estimate, median, pooled, proportion, sign_flip
from anyorder.sweep.front import aup
from anyorder.sweep.race import Decision, Race
from anyorder.sweep.settings import Setting

Records = Mapping[str, Mapping[str, Record]]
"""Key of a setting -> item -> what was measured."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is good enough, and how sure that must be."""

    budget: float
    """How much worse than the best, in score."""
    confidence: float
    """That all decisions are right together, at least."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One setting. Failed answers score 0 in the quality and are left out of passes and times."""

    name: str
    series: str
    params: Mapping[str, Any]
    decision: Decision
    answered: int
    failed: int
    retried: int
    """Answered prompts that took more than one try."""
    quality: Estimate | None
    behind: Estimate | None
    """Score of the best setting minus this one's, over the prompts that both have."""
    p: float | None
    """Of a sign-flip test that `behind` is 0."""
    tokens_per_forward: Estimate | None
    passes: Estimate | None
    first_s: Estimate | None
    """Median."""
    last_s: Estimate | None
    """Median."""
    tokens_per_second: Estimate | None
    memory_bytes: int | None
    worst_gap: Estimate | None
    """Mean nats that the worst pass of an answer lost by drawing its slots apart; None: not measured."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """All figures. The named settings are None where nothing is proven."""

    rows: Sequence[Row]
    best: str | None
    """Highest mean score."""
    cliff: str | None
    """Of the settings that are proven good enough, the one with the most tokens per forward; where passes are not
    known, the one with the least time."""
    behind_cliff: str | None
    """Of those that are proven worse, the least parallel one behind the cliff."""
    fastest: str | None
    """Of the settings that are proven good enough, the one with the least median time."""
    aup: Mapping[str, float]
    """Series -> area under its curve; "all" of everything together."""

    @property
    def open(self) -> list[str]:
        """Settings that need more prompts to be decided."""
        return [row.name for row in self.rows if row.decision == "open"]

    def row(self, name: str) -> Row:
        """The row of a setting."""
        return next(row for row in self.rows if row.name == name)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def decide(settings: Sequence[Setting], records: Records, items: Sequence[str], limits: Limits) -> Race:
    """The race after all that was measured, item by item."""
    race = Race(len(settings), budget=limits.budget, error=1 - limits.confidence)
    for item in items:
        race.observe(scores_of(settings, records, item))
    return race


def scores_of(settings: Sequence[Setting], records: Records, item: str) -> dict[int, float]:
    """Index of a setting -> its score on an item, of those that were measured."""
    found = (records.get(setting.key, {}).get(item) for setting in settings)
    return {index: record["score"] for index, record in enumerate(found) if record is not None}


def summarise(settings: Sequence[Setting], records: Records, items: Sequence[str], limits: Limits) -> Summary:
    """The figures of whatever has been measured so far.

    Args:
        items: ids, in the order in which they were asked.
    """
    race = decide(settings, records, items, limits)
    decisions: dict[str, Decision] = {s.name: race.decision(index) for index, s in enumerate(settings)}
    best = _best(settings, records, decisions)
    rows = [_row(setting, decisions[setting.name], records, best) for setting in settings]
    good = [row for row in rows if row.decision == "in" and row.quality is not None]
    cliff = max(good, key=_parallelism, default=None)
    behind = [r for r in rows if r.decision == "out" and cliff and _parallelism(r) > _parallelism(cliff)]
    fastest = min((row for row in good if row.last_s is not None), key=_seconds, default=None)
    return Summary(
        rows=rows,
        best=None if best is None else best.name,
        cliff=_named(cliff),
        behind_cliff=_named(min(behind, key=_parallelism, default=None)),
        fastest=_named(fastest),
        aup=_areas(rows),
    )


def _named(row: Row | None) -> str | None:
    return None if row is None else row.name


def _parallelism(row: Row) -> tuple[float, float]:
    return (row.tokens_per_forward.value if row.tokens_per_forward else 0.0), -_seconds(row)


def _seconds(row: Row) -> float:
    return row.last_s.value if row.last_s else float("inf")


def _best(settings: Sequence[Setting], records: Records, decisions: Mapping[str, Decision]) -> Setting | None:
    """The best mean of those that are not out: what was stopped early is known from a few prompts only."""
    means = {
        setting: sum(record["score"] for record in found.values()) / len(found)
        for setting in settings
        if decisions[setting.name] != "out" and (found := records.get(setting.key))
    }
    return max(means, key=lambda setting: means[setting], default=None)


def _row(setting: Setting, decision: Decision, records: Records, best: Setting | None) -> Row:
    found = records.get(setting.key, {})
    answers = [record for record in found.values() if "failed" not in record]
    counted = [record for record in answers if record["passes"] and record["tokens"] is not None]
    differences = _behind(found, records.get(best.key, {}) if best else {})
    return Row(
        name=setting.name,
        series=setting.series,
        params=setting.params,
        decision=decision,
        answered=len(answers),
        failed=len(found) - len(answers),
        retried=sum(bool(record["retries"]) for record in answers),
        quality=_quality([record["score"] for record in found.values()]),
        behind=None if setting is best else pooled([(difference, 1.0) for difference in differences]),
        p=None if setting is best or not differences else sign_flip(differences),
        tokens_per_forward=pooled([(record["tokens"], record["passes"]) for record in counted]),
        passes=pooled([(record["passes"], 1.0) for record in counted]),
        first_s=median([record["first_s"] for record in answers]),
        last_s=median([record["last_s"] for record in answers]),
        tokens_per_second=pooled([(r["tokens"], r["last_s"]) for r in answers if r["tokens"] is not None]),
        memory_bytes=max((r["memory_bytes"] for r in answers if r["memory_bytes"] is not None), default=None),
        worst_gap=pooled([(r["worst_gap"], 1.0) for r in answers if r.get("worst_gap") is not None]),
    )


def _quality(scores: Sequence[float]) -> Estimate | None:
    """The mean score; of one prompt with marks in between nothing can be said, and the interval is all there is."""
    if set(scores) <= {0, 1}:
        return proportion(round(sum(scores)), len(scores)) if scores else None
    mean = pooled([(score, 1.0) for score in scores])
    return mean if mean is None or len(scores) > 1 else replace(mean, low=0.0, high=1.0)


def _behind(found: Mapping[str, Record], best: Mapping[str, Record]) -> list[float]:
    return [best[item]["score"] - record["score"] for item, record in found.items() if item in best]


def _areas(rows: Sequence[Row]) -> dict[str, float]:
    points = [(row.series, row.tokens_per_forward.value, 100 * row.quality.value) for row in rows
              if row.tokens_per_forward and row.quality]  # fmt: skip
    best = max((y for *_, y in points), default=0.0)
    series = list(dict.fromkeys(name for name, *_ in points))
    areas = {name: aup([(x, y) for other, x, y in points if other == name], best) for name in series}
    return areas if len(areas) < 2 else {**areas, "all": aup([(x, y) for _, x, y in points], best)}
