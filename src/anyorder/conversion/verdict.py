"""A report in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from anyorder.conversion.summary import Identity, Lossless, Masked, Perplexity, Summary, Threshold
from anyorder.reporting.markup import plain
from anyorder.reporting.statistics import exponential

TEXTS = {"own": "the base's own answers", "written": "answers written by people"}
"""Whose answers are scored."""
_USUAL_THRESHOLD = 0.9


@dataclass(frozen=True)
class Verdict:
    """One finding, led by its point."""

    tone: Literal["good", "bad", "plain"]
    lead: str
    text: str


def verdicts(summary: Summary) -> list[Verdict]:
    """What the figures say; nothing of what was not measured."""
    found = [*_identity(summary.identity, summary.perplexity), *map(_draft, _drafts(summary))]
    nearest = min(summary.threshold, key=lambda row: abs(row.threshold - _USUAL_THRESHOLD), default=None)
    if nearest is not None:
        found.append(_threshold(nearest, summary))
    return [*found, *_masked([row for row in summary.by_ratio if row.text == "own"] or list(summary.by_ratio))]


def _identity(identity: Identity | None, perplexity: Sequence[Perplexity]) -> Iterator[Verdict]:
    if identity is None:
        return
    if identity.identical == identity.documents:
        text = f"its logits are the base's, bit for bit, at all {identity.tokens:,} tokens of prompts and answers."
        yield Verdict("good", "Read from left to right nothing was lost:", text)
        return
    changes = ", ".join(f"of {TEXTS[p.text]} {plain(p.before)} before and {plain(p.after)} after" for p in perplexity)
    lead = (
        f"The causal mode changed: its logits are the base's in {identity.identical} of {identity.documents} prompts;"
    )
    yield Verdict("bad", lead, f"perplexity {changes}.")


def _drafts(summary: Summary) -> list[Lossless]:
    return [row for row in summary.lossless if row.refused is None and row.draft != "none"]


def _draft(row: Lossless) -> Verdict:
    is_exact = row.equal_to_plain == row.documents
    return Verdict(
        "good" if is_exact else "bad",
        f"Draft {row.draft}: {row.equal_to_plain} of {row.documents} texts are those of one token per pass,",
        f"at {plain(row.tokens_per_forward)} tokens per forward and {plain(row.speedup)} times the speed.",
    )


def _threshold(row: Threshold, summary: Summary) -> Verdict:
    base = plain(exponential(summary.base.base_nats))
    return Verdict(
        "plain",
        f"With nothing verified, at threshold {row.threshold:g}: {plain(row.tokens_per_forward)} tokens per forward,",
        f"similarity to the base's text {plain(row.similarity)}, perplexity under the base "
        f"{plain(exponential(row.quality.base_nats))}; its own texts have {base}.",
    )


def _masked(rows: list[Masked]) -> Iterator[Verdict]:
    if rows:
        few, all_ = rows[0], rows[-1]
        yield Verdict(
            "plain",
            "Masked tokens:",
            f"{plain(few.cross_entropy)} nats each where {few.at:.0%} of a block are masked, "
            f"{plain(all_.cross_entropy)} where all are; the best guess is right for {plain(few.accuracy, '.0%')} and "
            f"{plain(all_.accuracy, '.0%')} of them.",
        )
