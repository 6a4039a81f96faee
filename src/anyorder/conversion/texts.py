"""What base and converted model write to the held-out prompts, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from anyorder.conversion.heldout import HeldOut
from anyorder.conversion.markup import compared
from anyorder.conversion.measure import Record, Records

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
    texts = "".join(_column(title, found, base) for title, found in columns.items())
    return (
        f'<details class="prompt"{" open" if is_open else ""}><summary><b>{escape(prompt.id)}</b> '
        f'{escape(prompt.text)}</summary><div class="texts">{texts}</div></details>'
    )


def _column(title: str, found: Record, base: Record) -> str:
    if found is not base and found["ids"] == base["ids"]:
        text = '<div class="text good">The same text.</div>'
    else:
        text = f'<div class="text">{compared(base["text"], found["text"])}</div>'
    figures = f"{found['tokens']} tokens in {found['passes']} passes"
    return f'<div><h3>{escape(title)}</h3><div class="dim">{figures}</div>{text}</div>'
