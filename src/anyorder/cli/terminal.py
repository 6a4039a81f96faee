"""Where text meets the terminal: what may be shown, and on which stream.

Answers go to stdout, everything about them (figures, progress, errors) to stderr.
"""

from __future__ import annotations

import os
import re
import sys

from rich.console import Console

# C0 but newline and tab, DEL, C1, and the marks that reorder text: a model or a file must not drive the terminal.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def safe(text: str) -> str:
    """`text` with every character that could control a terminal shown as a visible stand-in, tabs as spaces."""
    return _UNSAFE.sub(_stand_in, text.replace("\r\n", "\n")).expandtabs(4)


def _stand_in(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # control pictures, one for each C0 character
    return "\u2421" if code == 0x7F else "\ufffd"


def one_line(text: str) -> str:
    """`text` as a single safe line."""
    return " ".join(safe(text).split())


def out_console() -> Console:
    """Stdout; nothing in a text is read as markup."""
    return Console(markup=False, highlight=False, emoji=False)


def err_console() -> Console:
    """Stderr, likewise."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def can_animate(console: Console) -> bool:
    """True if a canvas can be redrawn in place, in colour."""
    return console.is_terminal and not console.is_dumb_terminal and not console.no_color


def print_error(message: str) -> None:
    """One line on stderr, never wrapped."""
    console = err_console()
    console.print("error:", style="bold red", end=" ")
    console.print(one_line(message), soft_wrap=True)


def write_out(text: str) -> None:
    """`text` and a newline on stdout: made safe on a terminal, exact in a pipe or a file."""
    sys.stdout.write((safe(text) if sys.stdout.isatty() else text) + "\n")


def is_debugging() -> bool:
    """True if the user asked for tracebacks with ANYORDER_DEBUG=1."""
    return os.environ.get("ANYORDER_DEBUG", "") not in ("", "0")
