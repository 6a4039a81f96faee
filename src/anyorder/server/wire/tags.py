"""The tagged messages of Inception's edit and apply endpoints, read and put into words that any chat model follows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from anyorder.server.errors import bad_request

CURSOR = "<|cursor|>"
PARAM = "messages[0].content"
_PATH = re.compile(r"\s*current_file_path:[ \t]*([^\n]*)\n")
_INNER = re.compile(r"<\|/?recently_viewed_code_snippet\|>\n?")


@dataclass(frozen=True)
class Task:
    """What the model is asked, and how its answer is to end."""

    question: str
    fence: str
    """Backticks that stand in none of the texts; the answer ends at them."""
    ends_line: bool
    """The text that the answer replaces ends with a newline."""


def edit_task(message: str) -> Task:
    """The next edit of a region: what was viewed, the file around the region, and what was edited before.

    Raises:
        ApiError: no region is marked.
    """
    file = _between(message, "current_file_content") or message
    region = _needed(file, "code_to_edit")
    before, after = file[: file.index("<|code_to_edit|>")], file[file.rindex("<|/code_to_edit|>") :].partition("|>")[2]
    path = _PATH.match(before)
    before = before[path.end() if path else 0 :].lstrip("\n")
    fence = _fence(message)
    cursor = region.find(CURSOR)
    region = region.replace(CURSOR, "")
    sections = [
        _section(
            "Code that was viewed lately:", _INNER.sub("", _between(message, "recently_viewed_code_snippets")), fence
        ),
        _section("Edits that were made, the latest last:", _between(message, "edit_diff_history"), fence),
        _section("The file in front of the region:", before, fence),
        _section(f"The region{_place(region, cursor)}:", region, fence) or "The region is empty.",
        _section("The file behind the region:", after, fence),
        "Write the region as it is after the developer's next edit: all of its lines, also those that stay, and "
        f"nothing else. Answer with one block of code in {fence}.",
    ]
    name = path[1].strip() if path else ""
    lead = f"A developer is editing {name or 'a file'}. Predict the next edit of one region of it."
    return Task("\n\n".join([lead, *(part for part in sections if part)]), fence, region.endswith("\n"))


def apply_task(message: str) -> Task:
    """An update to be merged into code.

    Raises:
        ApiError: the code or the update is missing.
    """
    original, update = _needed(message, "original_code"), _needed(message, "update_snippet")
    fence = _fence(message)
    parts = [
        "Merge an update into code. Comments such as `... existing code ...` stand for lines that stay as they are.",
        _section("The code:", original, fence) or "The code is empty.",
        _section("The update:", update, fence) or "The update is empty.",
        f"Write the whole code with the update in it, and nothing else. Answer with one block of code in {fence}.",
    ]
    return Task("\n\n".join(parts), fence, original.endswith("\n"))


def _between(text: str, tag: str) -> str:
    """What stands between a tag's first opening and last closing, the line break behind the opening left out."""
    opening, closing = f"<|{tag}|>", f"<|/{tag}|>"
    start, end = text.find(opening), text.rfind(closing)
    return text[start + len(opening) : end].removeprefix("\n") if 0 <= start < end else ""


def _needed(text: str, tag: str) -> str:
    opening, closing = f"<|{tag}|>", f"<|/{tag}|>"
    if not 0 <= text.find(opening) < text.rfind(closing):
        raise bad_request(f"the message needs `{opening}`, and `{closing}` behind it", param=PARAM)
    return _between(text, tag)


def _place(region: str, cursor: int) -> str:
    """Where the cursor is; the mark itself is not shown, or the model would copy it."""
    if cursor < 0:
        return ""
    lines = region[:cursor].split("\n")
    return (
        f"; the cursor is in its line {len(lines)}, behind {lines[-1]!r}"
        if lines[-1]
        else (f"; the cursor is at the beginning of its line {len(lines)}")
    )


def _section(title: str, text: str, fence: str) -> str:
    """A titled block; nothing of nothing."""
    body = text.removesuffix("\n")
    return f"{title}\n{fence}\n{body}\n{fence}" if text.strip() else ""


def _fence(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(3, longest + 1)
