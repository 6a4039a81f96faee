"""What clients of Inception's completion endpoints send that OpenAI's do not, and what is made of it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from anyorder.server.errors import bad_request
from anyorder.server.wire.common import PENALTY, Common

MAX_STOPS = 16
"""Editors add stop texts of a language to those of a user."""
NOTHING_FOLLOWS = "<|endoftext|>"
"""The suffix that says that there is none (Continue)."""
FIM_MAX_TOKENS = 512
GAP_MAX_TOKENS = 64
"""For a model that fills every slot of a gap: 512 would be a long text whatever the gap is like."""
FIM_STOPS = ("\n\n", "\n \n")
PENALTIES = {"presence_penalty": (-2, 2, 0), "frequency_penalty": (-2, 2, 0), "repetition_penalty": (0, 2, 1)}
"""Name -> least, greatest, the value that asks for nothing."""


class FimRequest(Common):
    """A text with a gap to fill; without a suffix, one to continue."""

    max_stops = MAX_STOPS

    prompt: str
    suffix: str | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None

    @property
    def text_behind(self) -> str | None:
        """What stands behind the gap, if anything does."""
        return None if self.suffix in ("", NOTHING_FOLLOWS) else self.suffix

    def as_completion(self, data: dict[str, Any], max_tokens: int) -> dict[str, Any]:
        """The body of the same request to `/v1/completions`.

        Args:
            data: the body of this one.
        """
        stop = list(FIM_STOPS) if self.stop is None else self.stop
        filled = {**data, "suffix": self.text_behind, "max_tokens": max_tokens, "stop": stop}
        return {name: value for name, value in filled.items() if value is not None}


def without_penalties(data: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The request without penalties, and the warning that says that they are not applied.

    Editors send them with every request and offer no way to leave them out, so refusing them would refuse the editors.

    Raises:
        ApiError: one is no number, or out of range.
    """
    kept, unapplied = dict(data), list[str]()
    for name, (least, greatest, nothing) in PENALTIES.items():
        value = kept.pop(name, None)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= greatest:
            raise bad_request(f"`{name}` must be a number from {least} to {greatest}", param=name, code="invalid_value")
        if value != nothing:
            unapplied.append(f"{name} {value:g}")
    if not unapplied:
        return kept, None
    return kept, f"{' and '.join(unapplied)} not applied: {PENALTY}"
