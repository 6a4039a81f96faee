"""Images as callers give them, read without trusting what they say."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.errors import ParameterError

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""Formats that are read; Pillow knows more, and some of them start other programs."""
KNOWN = f"formats are {', '.join(FORMATS)}"
MAX_PIXELS = 64_000_000
"""Of an image before it is scaled down; a few kilobytes may claim to be more."""
STUMBLES = (
    OSError, ValueError, SyntaxError, EOFError, TypeError, LookupError, ArithmeticError, MemoryError, struct.error,
)  # fmt: skip
"""What Pillow's readers raise over damaged files."""
TRANSPARENT = ("RGBA", "LA", "PA", "La", "RGBa")


@dataclass(frozen=True)
class Image:
    """An image in a prompt, for models that read images.

    Args:
        source: path, the bytes of a file, or a PIL image. Files are PNG, JPEG, WebP, GIF (first frame), BMP or TIFF.
    Raises:
        ParameterError: `source` is something else.
    """

    source: str | Path | bytes | PilImage = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.source, str | Path | bytes) and not _is_pil(self.source):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParameterError(
                f"an Image is a path, bytes or a PIL image, got {type(self.source).__name__}", param="prompt"
            )
        if isinstance(self.source, str) and self.source.startswith(("http://", "https://", "data:")):
            raise ParameterError(
                "an Image is not fetched from a URL; give a path, or the bytes of the file", param="prompt"
            )

    def read(self) -> PilImage:
        """The decoded image, turned as its camera says, RGB or RGBA.

        Raises:
            ParameterError: it cannot be read, is of another format, or is too large.
        """
        from PIL import Image as Pil

        source = self.source
        try:
            if isinstance(source, Pil.Image):
                return _decoded(source)
            with Pil.open(_file(source), formats=FORMATS) as opened:
                return _decoded(opened)
        except (Pil.DecompressionBombError, Pil.DecompressionBombWarning):
            told = f"{self._name} has more than {MAX_PIXELS:,} pixels; scale it down"
            raise ParameterError(told, param="prompt") from None
        except FileNotFoundError:
            raise ParameterError(f"there is no image at {str(source)!r}", param="prompt") from None
        except Pil.UnidentifiedImageError:
            raise ParameterError(f"{self._name} cannot be read as an image: {KNOWN}", param="prompt") from None
        except ParameterError:
            raise
        except STUMBLES as error:
            told = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
            raise ParameterError(f"{self._name} cannot be read as an image: {told}; {KNOWN}", param="prompt") from None

    @property
    def _name(self) -> str:
        return f"the image {str(self.source)!r}" if isinstance(self.source, str | Path) else "an image"


def split_content(content: Sequence[Mapping[str, Any]], where: str) -> tuple[list[dict[str, Any]], list[Image]]:
    """A message's content as a list of parts, taken apart into what a chat template reads and the images.

    Args:
        content: `{"type": "text", "text": ...}` and `{"type": "image", "image": Image, path, bytes or PIL image}`.
        where: names the content in errors.
    Returns:
        the parts, images without what they hold; the images in order.
    Raises:
        ParameterError: a part is of no known kind.
    """
    parts: list[dict[str, Any]] = []
    images: list[Image] = []
    for number, part in enumerate(content):
        match part:
            case {"type": "text", "text": str(text), **rest} if not rest:
                parts.append({"type": "text", "text": text})
            case {"type": "image", "image": source, **rest} if not rest:
                images.append(source if isinstance(source, Image) else Image(source))
                parts.append({"type": "image"})
            case _:
                raise ParameterError(
                    f"{where}[{number}] must be {{'type': 'text', 'text': ...}} or {{'type': 'image', 'image': path, "
                    f"bytes or Image}}, got {_shown(part)}",
                    param="messages",
                )
    return parts, images


def _shown(part: object) -> str:
    if not isinstance(part, Mapping):
        return type(part).__name__
    kind = part.get("type")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return f"type {kind!r} with {', '.join(sorted(map(str, part))) or 'nothing'}"  # pyright: ignore[reportUnknownArgumentType]


def _is_pil(source: object) -> bool:
    return hasattr(source, "getbands") and hasattr(source, "convert")


def _file(source: str | Path | bytes) -> Path | BytesIO:
    return BytesIO(source) if isinstance(source, bytes) else Path(source)


def _decoded(opened: PilImage) -> PilImage:
    _check_size(opened.width, opened.height)
    if opened.mode == "F" or opened.mode.startswith("I"):  # converting would cut off all but the darkest shades
        raise ParameterError(
            f"an image of mode {opened.mode!r} has more than 8 bits a colour; save it with 8", param="prompt"
        )
    turned = _turned(opened)
    transparent = turned.mode in TRANSPARENT or "transparency" in turned.info
    return turned.convert("RGBA" if transparent else "RGB")


def _turned(opened: PilImage) -> PilImage:
    """Upright, as its camera says. Pillow's own `exif_transpose` also writes the other tags anew, which fails where one
    of them is damaged."""
    from PIL.ExifTags import Base
    from PIL.Image import Transpose

    opened.load()  # some files say it behind their pixels
    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    turn = turns.get(opened.getexif().get(Base.Orientation, 1))
    return opened if turn is None else opened.transpose(turn)


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise ParameterError(
            f"an image of {width} x {height} has more than {MAX_PIXELS:,} pixels; scale it down", param="prompt"
        )
    if not width or not height:
        raise ParameterError(f"an image of {width} x {height} has no pixels", param="prompt")
