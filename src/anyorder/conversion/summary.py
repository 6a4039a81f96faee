"""From the records of single prompts to the figures of a report, each with its sample and its interval."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anyorder.conversion.measure import Record, Records
from anyorder.reporting.statistics import Estimate, exponential, median, pooled


@dataclass(frozen=True, kw_only=True)
class Perplexity:
    """Of the causal mode on one set of texts."""

    text: str
    before: Estimate | None
    after: Estimate | None


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Documents in which the causal logits are bit-identical to the base's."""

    identical: int
    documents: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Masked:
    """Cross-entropy in nats per masked token and share of right argmaxes, at one ratio or depth."""

    text: str
    at: float
    cross_entropy: Estimate | None
    accuracy: Estimate | None


@dataclass(frozen=True, kw_only=True)
class Lossless:
    """One draft setting against plain causal decoding of the same weights."""

    draft: str
    refused: str | None = None
    equal_to_plain: int = 0
    equal_to_base: int = 0
    documents: int = 0
    tokens_per_forward: Estimate | None = None
    speedup: Estimate | None = None
    """Median over prompts of plain seconds / draft seconds."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Of a set of texts."""

    base_nats: Estimate | None
    """Nats per token under the causal base."""
    repetition: Estimate | None
    """Share of 4-grams that occurred before in the text."""


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """Decoding with one threshold and no verifier."""

    threshold: float
    tokens_per_forward: Estimate | None
    equal_to_base: int
    documents: int
    prefix: Estimate | None
    """Tokens up to the first difference to the base's text, over the tokens of that."""
    similarity: Estimate | None
    """1 - edit distance to the base's text over the longer length."""
    quality: Quality


@dataclass(frozen=True, kw_only=True)
class Summary:
    """All figures."""

    base: Quality
    """Of the base's own greedy texts, to compare the thresholds' with."""
    perplexity: Sequence[Perplexity]
    identity: Identity | None
    by_ratio: Sequence[Masked]
    by_depth: Sequence[Masked]
    lossless: Sequence[Lossless]
    threshold: Sequence[Threshold]

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def summarise(records: Records) -> Summary:
    """The figures of whatever has been measured so far."""
    base = records.get("base", {})
    masked = list(records.get("masked", {}).values())
    causal = list(records.get("perplexity", {}).values())
    return Summary(
        base=_quality(base.values()),
        perplexity=[_perplexity(causal, text) for text in _texts(causal)],
        identity=_identity(causal),
        by_ratio=[row for text in _texts(masked) for row in _by_ratio(masked, text)],
        by_depth=[row for text in _texts(masked) for row in _by_depth(masked, text)],
        lossless=_lossless(records.get("lossless", {}), base),
        threshold=_thresholds(records.get("threshold", {}), base),
    )


def _quality(texts: Collection[Record]) -> Quality:
    return Quality(
        base_nats=_per_token([text["under_base"] for text in texts], "nats"),
        repetition=_mean(text["repetition"] for text in texts),
    )


def _texts(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(text for record in records for text in record["texts"]))


def _of(records: Sequence[Record], text: str) -> list[Record]:
    return [record["texts"][text] for record in records if text in record["texts"]]


def _mean(values: Iterable[float]) -> Estimate | None:
    return pooled([(value, 1.0) for value in values])


def _per_token(scores: Sequence[Record], name: str) -> Estimate | None:
    """`name` ("nats" or "hits") per scored token."""
    return pooled([(score[name], score["tokens"]) for score in scores])


def _perplexity(records: Sequence[Record], text: str) -> Perplexity:
    before, after = (
        exponential(_per_token([found[when] for found in _of(records, text)], "nats")) for when in ("before", "after")
    )
    return Perplexity(text=text, before=before, after=after)


def _identity(records: Sequence[Record]) -> Identity | None:
    if not records:
        return None
    return Identity(
        identical=sum(record["bit_identical"] for record in records),
        documents=len(records),
        tokens=sum(record["compared_tokens"] for record in records),
    )


def _by_ratio(records: Sequence[Record], text: str) -> list[Masked]:
    columns = zip(*(found["by_ratio"] for found in _of(records, text)), strict=True)
    return [_masked(text, column[0]["ratio"], column) for column in columns]


def _by_depth(records: Sequence[Record], text: str) -> list[Masked]:
    columns = zip(*(found["by_depth"] for found in _of(records, text)), strict=True)
    return [_masked(text, depth, column) for depth, column in enumerate(columns)]


def _masked(text: str, at: float, scores: Sequence[Record]) -> Masked:
    return Masked(text=text, at=at, cross_entropy=_per_token(scores, "nats"), accuracy=_per_token(scores, "hits"))


def _lossless(records: Mapping[str, Record], base: Mapping[str, Record]) -> list[Lossless]:
    drafts = dict.fromkeys(draft for record in records.values() for draft in record)
    return [
        _draft(draft, {key: record for key, record in records.items() if draft in record}, base) for draft in drafts
    ]


def _draft(draft: str, records: Mapping[str, Record], base: Mapping[str, Record]) -> Lossless:
    refused = next((record[draft]["refused"] for record in records.values() if "refused" in record[draft]), None)
    if refused is not None:
        return Lossless(draft=draft, refused=refused)
    found = {key: record[draft] for key, record in records.items()}
    return Lossless(
        draft=draft,
        equal_to_plain=sum(record[draft]["ids"] == record["none"]["ids"] for record in records.values()),
        equal_to_base=_equal(found, base),
        documents=len(found),
        tokens_per_forward=_tokens_per_forward(found.values()),
        speedup=median([record["none"]["seconds"] / record[draft]["seconds"] for record in records.values()]),
    )


def _equal(found: Mapping[str, Record], base: Mapping[str, Record]) -> int:
    return sum(record["ids"] == base[key]["ids"] for key, record in found.items())


def _tokens_per_forward(answers: Iterable[Record]) -> Estimate | None:
    return pooled([(record["tokens"], record["passes"]) for record in answers])


def _thresholds(records: Mapping[str, Record], base: Mapping[str, Record]) -> list[Threshold]:
    names = dict.fromkeys(name for record in records.values() for name in record)
    return [_threshold(name, {key: record[name] for key, record in records.items()}, base) for name in names]


def _threshold(name: str, found: Mapping[str, Record], base: Mapping[str, Record]) -> Threshold:
    return Threshold(
        threshold=float(name),
        tokens_per_forward=_tokens_per_forward(found.values()),
        equal_to_base=_equal(found, base),
        documents=len(found),
        prefix=pooled([(record["prefix"], len(base[key]["ids"])) for key, record in found.items()]),
        similarity=_mean(record["similarity"] for record in found.values()),
        quality=_quality(found.values()),
    )
