"""How a server listens and what it lets in. Free of torch and of the server extra, so that `--help` is instant."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from anyorder.channels.syntax import REASONING, TOOLS
from anyorder.errors import ParameterError
from anyorder.server.keys import LIMITS, ApiKey, Limits, limit_fault

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Everything about the HTTP side, checked once."""

    host: str = "127.0.0.1"
    """Address to listen on. One that others can reach needs an API key, or `insecure`."""

    port: int = 8000
    """Port to listen on; 0 takes a free one."""

    name: str | None = None
    """Name of the model in requests and in /v1/models; None: that of its folder, file or hub id."""

    api_keys: tuple[str, ...] = ()
    """Keys that clients must send, any of them, as `Authorization: Bearer KEY`; by default none."""

    keys: tuple[ApiKey, ...] = ()
    """Further keys, each with limits of its own: the `[[keys]]` of the file."""

    requests_per_minute: int = 0
    """Requests of a client per minute, and at once after a pause; 0 sets no limit."""

    tokens_per_minute: int = 0
    """Tokens of a client per minute, prompts and answers, as long as they may become until they are known; 0 sets no
    limit."""

    concurrent_requests: int = 0
    """Requests of a client that are answered at the same time; 0 sets no limit."""

    fim_tokens: bool = False
    """The model was trained to fill gaps with control tokens (`<|fim_prefix|>` or alike): use them for a `suffix`."""

    tool_parser: str = "auto"
    """How the model writes tool calls: auto (as its family and chat template do), hermes, gemma4 or none."""

    reasoning_parser: str = "auto"
    """How the model writes what it thinks: auto (as its chat template does), think, gemma4 or none."""

    insecure: bool = False
    """Listen on an address that others can reach without asking for a key."""

    cors_origins: tuple[str, ...] = ()
    """Web origins whose pages may call the server; by default none."""

    max_body_bytes: int = 8 << 20
    """Longest request body, in bytes."""

    max_choices: int = 8
    """Most answers of one request: its prompts times `n`."""

    max_images: int = 8
    """Most images of one request. Each is sent in its body, whose limit counts as well."""

    header_timeout_s: float = 10.0
    """Seconds for the head of a request: from connecting, or from the first byte of a further one."""

    body_timeout_s: float = 30.0
    """Seconds that a client has to send its request."""

    write_timeout_s: float = 60.0
    """Seconds that a client has to take what was streamed to it."""

    ping_s: float = 15.0
    """Seconds without news after which a stream sends a comment, so that nothing between takes it for dead."""

    request_timeout_s: float = 600.0
    """Seconds for a whole answer, its time in the queue included."""

    drain_s: float = 30.0
    """Seconds that running answers get to end when the server is told to stop."""

    max_connections: int = 1024
    """Open connections; further ones get 503."""

    otlp_endpoint: str | None = None
    """Where traces go, over HTTP: the whole URL, as http://localhost:4318/v1/traces; None: nowhere. Needs the extra
    `otel`."""

    def __post_init__(self) -> None:
        faults = [(f.name, fault) for f in fields(self) for fault in [_fault(f.name, getattr(self, f.name))] if fault]
        if faults:
            raise ParameterError("; ".join(fault for _, fault in faults), param=faults[0][0])
        if not self.is_local and not (self.api_keys or self.keys) and not self.insecure:
            raise ParameterError(
                f"`host` {self.host} can be reached by others, and there is no API key: set api_keys, or `insecure` if "
                "that is wanted",
                param="host",
            )

    @property
    def limits(self) -> Limits:
        """Those of clients that have none of their own."""
        return Limits(**{name: getattr(self, name) for name in LIMITS})

    @property
    def is_local(self) -> bool:
        """True if only this machine can connect."""
        return self.host in LOOPBACK


_TEXTS = ("api_keys", "cors_origins")
_PARSERS = {"tool_parser": TOOLS, "reasoning_parser": REASONING}
_SWITCHES = ("fim_tokens", "insecure")


def _fault(name: str, value: object) -> str | None:
    """What is wrong with one setting."""
    if name in ("host", "name"):
        fits = (isinstance(value, str) and value != "") or (name == "name" and value is None)
        return None if fits else f"`{name}` must be a text, got {value!r}"
    if name == "otlp_endpoint":
        fits = value is None or (isinstance(value, str) and value.startswith(("http://", "https://")))
        return None if fits else f"`{name}` must be the whole URL, as http://localhost:4318/v1/traces, got {value!r}"
    if name in _PARSERS:
        known = ("auto", *_PARSERS[name], "none")
        return None if value in known else f"`{name}` must be one of {', '.join(known)}, got {value!r}"
    if name in LIMITS:
        return limit_fault(name, value)
    if name == "keys":
        fits = isinstance(value, tuple) and all(isinstance(part, ApiKey) for part in value)  # type: ignore[misc]
        return None if fits else "`keys` must be a tuple of ApiKey"
    if name in _TEXTS:
        fits = isinstance(value, tuple) and all(isinstance(part, str) and part for part in value)  # type: ignore[misc]
        return None if fits else f"`{name}` must be a list of texts, none of them empty"  # keys are not shown
    if name in _SWITCHES:
        return None if isinstance(value, bool) else f"`{name}` must be true or false, got {value!r}"
    if name.endswith("_s"):
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return None if number and value > 0 else f"`{name}` must be seconds, above 0, got {value!r}"  # type: ignore[operator]
    whole = isinstance(value, int) and not isinstance(value, bool)
    low, high = (0, 65535) if name == "port" else (1, 2**62)
    return None if whole and low <= value <= high else f"`{name}` must be a whole number from {low}, got {value!r}"  # type: ignore[operator]
