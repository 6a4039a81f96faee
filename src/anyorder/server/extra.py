"""What needs the extra `otel`, imported only where it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyorder.errors import MissingExtra

if TYPE_CHECKING:
    from anyorder.server.tracing import Traces


def check_tracing() -> None:
    """Refuse to go on without the packages that traces need.

    Raises:
        MissingExtra: one of them is not there.
    """
    try:
        import anyorder.server.tracing  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ModuleNotFoundError as error:
        message = f"`otlp_endpoint` needs {error.name}: pip install 'anyorder[otel]'"
        raise MissingExtra(message) from None


def make_traces(endpoint: str | None) -> Traces | None:
    """What sends spans to an endpoint; None: nothing does.

    Raises:
        MissingExtra: the extra is not installed.
    """
    if endpoint is None:
        return None
    check_tracing()
    from anyorder.server import tracing

    return tracing.Traces(tracing.exporter_of(endpoint))
