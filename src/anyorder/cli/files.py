"""Reading what the user points at; every failure is one line that names the file."""

from __future__ import annotations

import sys
from pathlib import Path

from anyorder.errors import DataError, ParameterError
from anyorder.images import Image


def read_text(path: Path) -> str:
    """The file as UTF-8 text.

    Raises:
        DataError: it is missing, a folder, not readable, or not UTF-8.
    """
    try:
        return decode_utf8(path.read_bytes(), str(path))
    except OSError as error:
        raise DataError(f"cannot read {path}: {reason(error)}") from error


def read_image(path: Path) -> Image:
    """The image of a file, tried out.

    Raises:
        DataError: it is missing, or cannot be read as an image.
    """
    image = Image(path)
    try:
        image.read()
    except ParameterError as error:
        raise DataError(str(error)) from None
    return image


def read_stdin() -> str:
    """All of standard input as UTF-8 text."""
    if sys.stdin is None or sys.stdin.isatty():
        raise ParameterError("'-' reads the prompt from standard input, where nothing comes from; pipe a text into it")
    return decode_utf8(sys.stdin.buffer.read(), "standard input")


def decode_utf8(data: bytes, name: str) -> str:
    """`data` as text; a byte that is not UTF-8 is named with its place."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8; save it as UTF-8"
        ) from error


def reason(error: OSError) -> str:
    """What went wrong, in words: `No such file or directory`."""
    return error.strerror or str(error)
