"""Images that a message brings along: parts with a `data:` URL, decoded in the thread that encodes the prompt."""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator

from anyorder.errors import ParameterError
from anyorder.images import FORMATS, Image
from anyorder.server.errors import bad_request
from anyorder.server.wire.common import Wire

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

SEND = "send the bytes of the file, as data:image/png;base64,..."
_DATA_URL = re.compile(r"data:image/[a-z0-9.+-]{1,32};base64", re.IGNORECASE)


def _auto(detail: str | None) -> str | None:
    if detail not in (None, "auto"):
        raise ValueError("the model's own image processor says how finely an image is cut; leave it out or use 'auto'")
    return detail


Detail = Annotated[str | None, AfterValidator(_auto)]
"""How finely an image is to be read."""


class ImageUrl(Wire):
    """An image as chats have it."""

    url: str
    detail: Detail = None


class ImagePart(Wire):
    """A part of a message that is an image; some clients send the URL as it is."""

    type: Literal["image_url"]
    image_url: str | ImageUrl

    def read(self, where: str) -> SentImage:
        """The image.

        Args:
            where: path of the part in the request.
        Raises:
            ApiError: its URL is no `data:` URL of an image.
        """
        if isinstance(self.image_url, str):
            return sent_image(self.image_url, f"{where}.image_url")
        return sent_image(self.image_url.url, f"{where}.image_url.url")


@dataclass(frozen=True)
class SentImage(Image):
    """An image that a request has brought along.

    Args:
        source: base64 of its file.
        param: its place in the request, for errors.
    """

    source: bytes = field(repr=False)
    param: str

    def read(self) -> PilImage:
        """As `Image.read`; errors name the place in the request."""
        try:
            return Image(a2b_base64(self.source, strict_mode=True)).read()
        except Error as error:
            raise ParameterError(f"`{self.param}` is no base64: {error}", param=self.param) from None
        except ParameterError as error:
            raise ParameterError(f"`{self.param}`: {error}", param=self.param) from None


def sent_image(url: str, param: str) -> SentImage:
    """The image of a `data:` URL; nothing is decoded yet.

    Raises:
        ApiError: it is another kind of URL. None is ever fetched: a server that does can be sent anywhere.
    """
    head, _, data = url.partition(",")
    if _DATA_URL.fullmatch(head):
        return SentImage(data.encode(), param)
    if head[:5].lower() == "data:":
        known = ", ".join(FORMATS)
        told = f"`{param}` is a data: URL of something else than an image in base64; formats are {known}: {SEND}"
        raise bad_request(told, param=param, code="invalid_image_url")
    told = f"`{param}`: this server fetches no URLs; {SEND}"
    raise bad_request(told, param=param, code="invalid_image_url")


def by_type(tags: Mapping[str, str]) -> Callable[[object], str | None]:
    """What tells the parts of a content apart for pydantic: their `type`.

    Args:
        tags: type -> tag of a union member; one that is no identifier, to stay out of the paths of errors.
    """

    def tag(part: object) -> str | None:
        kind = part.get("type") if isinstance(part, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return tags.get(kind) if isinstance(kind, str) else None

    return tag
