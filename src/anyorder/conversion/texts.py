"""What base and converted model write to the held-out prompts, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from anyorder.conversion.heldout import HeldOut
from anyorder.conversion.measure import Record, Records
from anyorder.reporting.markup import compared

SHOWN_THRESHOLDS = (0.9, 0.7)
"""The texts of the measured thresholds that are nearest stand beside the base's."""


def side_by_side(prompts: Sequence[HeldOut], records: Records) -> str:
    answered = [prompt for prompt in prompts if prompt.id in records.get("base", {})]
    if not answered:
        return ""
    items = "".join(_prompt(records, prompt, is_open=index < 3) for index, prompt in enumerate(answered))
    note = "<mark>Marked</mark> are words that differ from the base's text."
    return f"<h2>Texts side by side</h2><p>{note}</p>{items}"


def _prompt(records: Records, prompt: HeldOut, *, is_open: bool) -> str:
    base = records["base"][prompt.id]
    drafts = records.get("lossless", {}).get(prompt.id, {})
    thresholds = records.get("threshold", {}).get(prompt.id, {})
    columns = {"the base, one token per pass": base}
    columns |= {f"draft {name}, verified": found for name, found in drafts.items() if name != "none" and "ids" in found}
    nearest = [min(thresholds, key=lambda name: abs(float(name) - wanted)) for wanted in SHOWN_THRESHOLDS if thresholds]
    columns |= {f"threshold {name}, not verified": thresholds[name] for name in nearest}
    same = [title for title, found in columns.items() if found is not base and found["ids"] == base["ids"]]
    note = "".join(
        f'<div class="good">{escape(title)}: the same text {_passes(columns[title])}</div>' for title in same
    )
    texts = "".join(_column(title, found, base) for title, found in columns.items() if title not in same)
    return (
        f'<details class="prompt"{" open" if is_open else ""}><summary><b>{escape(prompt.id)}</b> '
        f'{escape(prompt.text)}</summary><div class="texts">{texts}</div>{note}</details>'
    )


def _column(title: str, found: Record, base: Record) -> str:
    return (
        f'<div><h3>{escape(title)}</h3><div class="dim">{found["tokens"]} tokens {_passes(found)}</div>'
        f'<div class="text">{compared(base["text"], found["text"])}</div></div>'
    )


def _passes(found: Record) -> str:
    return f"in {found['passes']} passes"
