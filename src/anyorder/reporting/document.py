"""A report as one HTML file: no script, nothing to fetch, light and dark."""

from __future__ import annotations

from html import escape
from importlib import resources


def document(title: str, body: str) -> str:
    """The whole file.

    Args:
        title: plain text, also the heading.
        body: HTML.
    """
    style = resources.files("anyorder.reporting").joinpath("page.css").read_text("utf-8")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>\n"
    )
