"""How much a model may reason: counted token by token, and what closes the channel for it where it does not stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from anyorder.channels.parser import Channels

WHOLE_CHARACTER = 3
"""Tokens above a budget that may complete a character: the bytes that it can still lack."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a request allows."""

    tokens: int
    """Of reasoning, its markers included; 0: the channel is closed as soon as it is open."""
    slots: int
    """Of the whole answer."""
    close: Callable[[int], Sequence[int]]
    """Token ids that close the channel behind a text that ends with this many characters of the closing marker."""


@dataclass
class Allowance:
    """What is left of a budget.

    Args:
        channels: read what was handed out.
    """

    budget: Budget
    channels: Channels
    used: int = field(default=0, init=False)
    """Tokens handed out while there could be reasoning."""

    def room(self, *, whole: bool) -> int | None:
        """How many tokens may be handed out before asking again: 0, the budget is used up; None, there is no limit.

        Args:
            whole: the text so far ends with a whole character.
        """
        if not self.channels.may_reason:
            return None
        left = self.budget.tokens - self.used
        if left > 0:
            return left
        completes = not whole and left > -WHOLE_CHARACTER
        return 1 if completes or not self.channels.is_reasoning else 0

    def closing(self) -> list[int]:
        """Token ids that close the channel now."""
        return list(self.budget.close(self.channels.closing_begun))
