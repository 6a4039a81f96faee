"""Who answers: what a sweep asks of a model, here or behind an endpoint."""

from __future__ import annotations

from typing import Any, Protocol

from anyorder.sweep.answer import Answer
from anyorder.sweep.items import Item
from anyorder.sweep.settings import Setting


class Subject(Protocol):
    """A model that answers prompts."""

    @property
    def name(self) -> str:
        """As the page calls it."""
        ...

    def identity(self) -> dict[str, Any]:
        """What answers and times depend on; JSON-able."""
        ...

    def check(self, item: Item, setting: Setting) -> None:
        """Refuse a setting that cannot be measured, before anything is.

        Raises:
            ParameterError, ModelError, ContextError: why not.
        """
        ...

    def answer(self, item: Item, setting: Setting, sample: int) -> Answer:
        """Answer one prompt.

        Args:
            sample: number of its draws.
        Raises:
            Failed: it could not be answered, however often it was tried.
        """
        ...
