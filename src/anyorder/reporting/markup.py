"""Pieces of HTML that a report is made of; every text is escaped here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from html import escape

from anyorder.reporting.statistics import Estimate


def table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table under its caption; the first column names the rows, the cells of `rows` are HTML."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    return (  # no <caption>: it would be as wide as the table, which a phone scrolls
        f'<p class="dim">{escape(caption)}.</p><div class="wide"><table aria-label="{escape(caption)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def figure(drawing: str) -> str:
    """A drawing, which says itself what it shows; nothing where there is none."""
    return f"<figure>{drawing}</figure>" if drawing else ""


def estimated(estimate: Estimate | None, spec: str = ".3g") -> str:
    """`2.27 [2.10, 2.45]`; a dash where nothing was measured."""
    if estimate is None:
        return "–"
    return (
        f"{format(estimate.value, spec)} <small>[{format(estimate.low, spec)}, {format(estimate.high, spec)}]</small>"
    )


def plain(estimate: Estimate | None, spec: str = ".3g") -> str:
    """The same as text."""
    if estimate is None:
        return "not measured"
    return f"{format(estimate.value, spec)} [{format(estimate.low, spec)}, {format(estimate.high, spec)}]"


def sample(estimate: Estimate | None) -> str:
    """`40 documents, 5,606 tokens`."""
    if estimate is None:
        return "0"
    return f"{estimate.documents}" + (f", {estimate.tokens:,} tokens" if estimate.tokens else "")


def compared(expected: str, text: str, *, by_character: bool = False) -> str:
    """`text` with what differs from `expected` marked, word by word; blanks that changed are not.

    Args:
        by_character: for texts without blanks between their parts.
    """
    pieces = list(text) if by_character else re.findall(r"\s*\S+", text)
    ours, theirs = (list(text), list(expected)) if by_character else (text.split(), expected.split())
    matcher = SequenceMatcher(None, theirs, ours, autojunk=False)
    parts: list[str] = []
    for kind, _, _, start, end in matcher.get_opcodes():
        part = "".join(pieces[start:end])
        bare = part.lstrip()
        parts.append(escape(part) if kind == "equal" else part[: len(part) - len(bare)] + _mark(bare))
    return "".join(parts)


def in_short(points: Sequence[tuple[str, str, str]]) -> str:
    """The findings of a report: (tone, lead, text) each; the tone is good, bad, plain or dim."""
    items = "".join(f'<li><b class="{tone}">{escape(lead)}</b> {escape(text)}</li>' for tone, lead, text in points)
    return f'<section class="verdict"><h2>In short</h2><ul>{items}</ul></section>'


def pair(drawings: Sequence[str]) -> str:
    """Drawings side by side where there is room."""
    return f'<div class="pair">{"".join(drawings)}</div>'


def _mark(text: str) -> str:
    return f"<mark>{escape(text)}</mark>" if text else ""
