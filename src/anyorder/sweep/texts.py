"""The outputs of all settings to a prompt, side by side, with what changed marked."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from anyorder.reporting.journal import Record
from anyorder.reporting.markup import compared
from anyorder.sweep.items import Item, Task
from anyorder.sweep.settings import Setting
from anyorder.sweep.summary import Records

SHOWN = 12
"""Prompts; all of them are in sweep.json."""


def side_by_side(task: Task, settings: Sequence[Setting], records: Records) -> str:
    asked = [item for item in task.items if any(item.id in records.get(s.key, {}) for s in settings)]
    if not asked:
        return ""
    of = f"The first {SHOWN} of {len(asked)} prompts. " if len(asked) > SHOWN else ""
    note = f"{of}<mark>Marked</mark> is what differs from the text of {escape(settings[0].name)}."
    items = "".join(_item(item, settings, records, is_open=index < 3) for index, item in enumerate(asked[:SHOWN]))
    return f"<h2>Outputs side by side</h2><p>{note}</p>{items}"


def _item(item: Item, settings: Sequence[Setting], records: Records, *, is_open: bool) -> str:
    found = [(setting, record) for setting in settings if (record := records.get(setting.key, {}).get(item.id))]
    first = records.get(settings[0].key, {}).get(item.id, {}).get("text")
    texts = "".join(_column(setting, record, first) for setting, record in found)
    wanted = f'<div class="dim">reference: {escape(" or ".join(item.references))}</div>' if item.references else ""
    return (
        f'<details class="prompt"{" open" if is_open else ""}><summary><b>{escape(item.id)}</b> '
        f'{escape(item.text)}</summary>{wanted}<div class="texts">{texts}</div></details>'
    )


def _column(setting: Setting, record: Record, first: str | None) -> str:
    if "failed" in record:
        told = f'<div class="bad">failed: {escape(record["failed"])}</div>'
        return f"<div><h3>{escape(setting.name)}</h3>{told}</div>"
    text: str = record["text"]
    shown = escape(text) if first is None else compared(first, text, by_character=not any(map(str.isspace, first)))
    seams = "".join(f'<div class="bad">seam in {escape(seam)}</div>' for seam in record.get("seams", ()))
    return (
        f'<div><h3>{escape(setting.name)}</h3><div class="dim">{_figures(record)}</div>'
        f'<div class="text">{shown}</div>{seams}</div>'
    )


def _figures(record: Record) -> str:
    parts = [f"score {record['score']:.3g}"]
    parts += [f"{record['tokens']} tokens"] if record["tokens"] is not None else []
    parts += [f"{record['passes']} passes"] if record["passes"] is not None else []
    return ", ".join(parts)
