"""The report's figures as charts and tables, one function per kind of measurement; "" for what was not measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from anyorder.conversion.summary import Lossless, Masked, Summary, Threshold
from anyorder.conversion.verdict import TEXTS
from anyorder.reporting.chart import Line, Point, chart
from anyorder.reporting.markup import estimated, figure, pair, sample, table
from anyorder.reporting.statistics import Estimate, exponential


def ratios(summary: Summary) -> str:
    """Masked cross-entropy and accuracy by mask ratio."""
    rows = summary.by_ratio
    if not rows:
        return ""
    note = (
        "How well masked tokens of an answer are known, by the share of them that is masked. A block is masked by "
        "itself and sees the clean text before it."
    )
    return f"<h2>Masked cross-entropy by mask ratio</h2><p>{note}</p>{_masked(rows, 'mask ratio', '.2f')}"


def depths(summary: Summary) -> str:
    """The same by depth in the block, everything masked."""
    rows = [row for row in summary.by_depth if row.cross_entropy is not None]
    if not rows:
        return ""
    note = (
        "The whole block is masked and only the text before it is known. Depth is the place of the token in its block, "
        "from 0; where a block's first token is the causal mode's own, it is left out."
    )
    return f"<h2>Masked cross-entropy by depth in the block</h2><p>{note}</p>{_masked(rows, 'depth', '.0f')}"


def _masked(rows: Sequence[Masked], at: str, spec: str) -> str:
    texts = list(dict.fromkeys(row.text for row in rows))
    drawings = [
        figure(
            chart(
                [
                    Line(name=TEXTS[t], points=[_point(r.at, getattr(r, field)) for r in rows if r.text == t])
                    for t in texts
                ],
                title=f"{label} by {at}",
                x=at,
                y=label,
            )
        )
        for field, label in (("cross_entropy", "nats per masked token"), ("accuracy", "share of right best guesses"))
    ]
    cells = [
        [format(r.at, spec), TEXTS[r.text], estimated(r.cross_entropy), estimated(r.accuracy), sample(r.cross_entropy)]
        for r in rows
    ]
    header = (at, "text", "nats per masked token", "right best guesses", "documents")
    return pair(drawings) + _folded(table(f"By {at}", header, cells))


def _folded(html: str) -> str:
    return f"<details><summary>The figures as a table</summary>{html}</details>"


def _point(x: float, estimate: Estimate | None) -> Point:
    if estimate is None:
        return Point(x, math.nan, math.nan, math.nan)
    return Point(x, estimate.value, estimate.low, estimate.high)


def perplexity(summary: Summary) -> str:
    """Of the causal mode, before and after."""
    rows = [
        [TEXTS[row.text], estimated(row.before), estimated(row.after), sample(row.after)] for row in summary.perplexity
    ]
    if not rows:
        return ""
    caption = "Perplexity of the answers, read from left to right one token at a time, before and after the conversion"
    header = ("text", "before", "after", "documents")
    return "<h2>Causal perplexity, before and after</h2>" + table(caption, header, rows)


def lossless(summary: Summary) -> str:
    """Drafts that the causal mode verifies."""
    if not summary.lossless:
        return ""
    caption = (
        "Drafts are verified by the causal mode, so that the text stays that of one token per pass. "
        "Speed: median over prompts of plain seconds over draft seconds, each pair taken one behind the other"
    )
    header = ("draft", "texts equal to plain", "texts equal to the base's", "tokens per forward", "speed", "prompts")
    rows = [_lossless_row(row) for row in summary.lossless]
    return "<h2>Tokens per forward at equal output</h2>" + table(caption, header, rows)


def _lossless_row(row: Lossless) -> list[str]:
    name = "none: one token per pass" if row.draft == "none" else row.draft
    if row.refused is not None:
        return [escape(name), f'<span class="dim">{escape(row.refused)}</span>', *["–"] * 4]
    return [
        escape(name),
        _count(row.equal_to_plain, row.documents),
        _count(row.equal_to_base, row.documents),
        estimated(row.tokens_per_forward),
        estimated(row.speedup),
        str(row.documents),
    ]


def _count(equal: int, documents: int) -> str:
    return f'<span class="{"good" if equal == documents else "bad"}">{equal} of {documents}</span>'


def thresholds(summary: Summary) -> str:
    """Any-order decoding against the base's texts."""
    rows = summary.threshold
    if not rows:
        return ""
    note = (
        "Every proposal that is at least as sure as the threshold is committed, and nothing verifies it. The lower the "
        "threshold, the faster, and the further from what the base would have written."
    )
    caption = (
        "Similarity: 1 - edit distance over the longer length. Same beginning: tokens before the first difference, as "
        "a share of the base's. Perplexity: of the text under the base"
    )
    header = (
        "threshold", "tokens per forward", "similarity to the base's text", "same beginning", "same text",
        "perplexity", "repeated 4-grams",
    )  # fmt: skip
    nats, repeated = exponential(summary.base.base_nats), summary.base.repetition
    own = ["the base's own texts", *["–"] * 4, estimated(nats), estimated(repeated)]
    cells = [*map(_threshold_row, rows), own]
    return (
        f"<h2>Quality by threshold, nothing verified</h2><p>{note}</p>{_curves(summary)}{table(caption, header, cells)}"
    )


def _threshold_row(row: Threshold) -> list[str]:
    return [
        f"{row.threshold:g}",
        estimated(row.tokens_per_forward),
        estimated(row.similarity),
        estimated(row.prefix),
        f"{row.equal_to_base} of {row.documents}",
        estimated(exponential(row.quality.base_nats)),
        estimated(row.quality.repetition),
    ]


def _curves(summary: Summary) -> str:
    rows, base = summary.threshold, summary.base
    return pair(
        [
            _curve(rows, "tokens per forward", lambda row: row.tokens_per_forward),
            _curve(rows, "similarity to the base's text", lambda row: row.similarity),
            _curve(rows, "nats per token under the base", lambda row: row.quality.base_nats, base.base_nats),
            _curve(rows, "share of repeated 4-grams", lambda row: row.quality.repetition, base.repetition),
        ]
    )


def _curve(
    rows: Sequence[Threshold],
    label: str,
    read: Callable[[Threshold], Estimate | None],
    level: Estimate | None = None,
) -> str:
    """One figure by threshold; `level` is that of the base's own texts."""
    lines = [Line(name="converted model", points=[_point(row.threshold, read(row)) for row in rows])]
    if level is not None:
        ends = [min(row.threshold for row in rows), max(row.threshold for row in rows)]
        flat = [Point(x, level.value, level.value, level.value) for x in ends]
        lines.append(Line(name="the base's own texts", points=flat, marks=False))
    return figure(chart(lines, title=f"{label} by threshold", x="threshold", y=label))
