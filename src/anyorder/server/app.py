"""The application: endpoints behind a gate, and the service that lives as long as it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from anyorder.params import DecodeParams
from anyorder.server.backend import Backend
from anyorder.server.endpoint import backend_of, request_id
from anyorder.server.errors import ApiError
from anyorder.server.extra import make_traces
from anyorder.server.gate import Gate
from anyorder.server.settings import ServerSettings
from anyorder.server.surfaces.chat import chat_completions
from anyorder.server.surfaces.completions import completions
from anyorder.server.surfaces.edit import apply_completions, edit_completions
from anyorder.server.surfaces.fim import fim_completions
from anyorder.server.surfaces.health import health, metrics, ready
from anyorder.server.surfaces.models import chat_models, models, one_model
from anyorder.server.surfaces.responses import responses
from anyorder.server.turned_away import TurnedAway
from anyorder.serving import Service

ROUTES = (
    Route("/v1/chat/completions", chat_completions, methods=["POST"]),
    Route("/v1/responses", responses, methods=["POST"]),
    Route("/v1/completions", completions, methods=["POST"]),
    Route("/v1/fim/completions", fim_completions, methods=["POST"]),
    Route("/v1/edit/completions", edit_completions, methods=["POST"]),
    Route("/v1/apply/completions", apply_completions, methods=["POST"]),
    Route("/v1/models", models),
    Route("/v1/models/{name:path}", one_model),
    Route("/v1/chat/completions/models", chat_models),
    Route("/v1/completions/models", models),
    Route("/v1/fim/completions/models", models),
    Route("/v1/edit/completions/models", chat_models),
    Route("/v1/apply/completions/models", chat_models),
    Route("/health", health),
    Route("/ready", ready),
    Route("/metrics", metrics),
)
WATCH_S = 1.0


def make_app(
    service: Service,
    settings: ServerSettings,
    defaults: DecodeParams | None = None,
    *,
    on_death: Callable[[], None] | None = None,
) -> Starlette:
    """The ASGI application of a service, which it starts, drains and stops.

    Args:
        service: not started yet.
        defaults: what requests leave out.
        on_death: called once if the engine dies for good.
    Raises:
        ModelError: the model has no tokenizer, or none of the tokens that the settings tell it to use.
        MissingExtra: the settings name an `otlp_endpoint`, and the extra for it is not installed.
    """
    traces = make_traces(settings.otlp_endpoint)
    backend = Backend(service, settings, defaults or DecodeParams(), traces=traces)
    _ = backend.tokenizer, backend.byte_ids, backend.fim, backend.syntax
    backend.metrics.watch(service)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        service.start()
        watcher = asyncio.create_task(_watch(service, on_death))
        try:
            yield
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher
            await to_thread.run_sync(service.drain, settings.drain_s)
            await to_thread.run_sync(service.stop)
            if traces is not None:
                await to_thread.run_sync(traces.close)

    app = Starlette(
        routes=ROUTES,
        lifespan=lifespan,
        middleware=[*_cors(settings), Middleware(Gate, settings=settings, turned_away=TurnedAway(backend.metrics))],
        exception_handlers={HTTPException: _refused},
    )
    app.router.redirect_slashes = False
    app.state.backend = backend
    return app


async def _watch(service: Service, on_death: Callable[[], None] | None) -> None:
    while service.status().alive:
        await asyncio.sleep(WATCH_S)
    if on_death is not None:
        on_death()


def _cors(settings: ServerSettings) -> list[Middleware]:
    if not settings.cors_origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    ]


async def _refused(request: Request, error: Exception) -> Response:
    """No such path, or not with this method, in the shape of all errors."""
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path[:200]}"
    if error.status_code == 405:
        message, code = f"{where} is not how this is called", "method_not_allowed"
    else:
        message, code = f"there is no {where} here", "not_found"
    refusal = ApiError(error.status_code, message, code=code, headers=error.headers or {})
    TurnedAway(backend_of(request).metrics)(refusal, request_id(request))
    return refusal.response()
