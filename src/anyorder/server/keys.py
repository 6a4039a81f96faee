"""API keys, and how much a client with one may ask for."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from anyorder.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one client may ask for; 0 is as much as it likes."""

    requests_per_minute: int = 0
    """Requests of a client per minute, and at once after a pause; 0 sets no limit."""

    tokens_per_minute: int = 0
    """Tokens of a client per minute, prompts and answers, as long as they may become until they are known; 0 sets no
    limit."""

    concurrent_requests: int = 0
    """Requests of a client that are answered at the same time; 0 sets no limit."""

    def __post_init__(self) -> None:
        for name in LIMITS:
            if fault := limit_fault(name, getattr(self, name)):
                raise ParameterError(fault, param=name)


LIMITS = tuple(one.name for one in fields(Limits))


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """A key with limits of its own; None: those of every client."""

    key: str = field(default="", repr=False)
    """What the client sends."""

    name: str = ""
    """What the log calls the client."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_requests: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not self.key:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParameterError("`key` of [[keys]] must be a text, not empty", param="keys")
        if not isinstance(self.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParameterError(f"`name` of a key must be a text, got {self.name!r}", param="keys")
        self.limits(Limits())

    def limits(self, default: Limits) -> Limits:
        """Its limits, where those it does not set are `default`'s."""
        own = {name: getattr(self, name) for name in LIMITS}
        return replace(default, **{name: value for name, value in own.items() if value is not None})


def limit_fault(name: str, value: object) -> str | None:
    """What is wrong with a limit."""
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62
    return None if whole else f"`{name}` must be a whole number from 0 (no limit), got {value!r}"
