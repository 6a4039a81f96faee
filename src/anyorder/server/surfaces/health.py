"""`/health`, `/ready` and `/metrics`."""

from __future__ import annotations

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from anyorder.server.endpoint import backend_of


async def health(request: Request) -> Response:
    """200 while the engine lives; else restart the server."""
    alive = backend_of(request).service.status().alive
    return JSONResponse({"status": "ok" if alive else "dead"}, 200 if alive else 503)


async def ready(request: Request) -> Response:
    """200 while new requests are taken; else send them elsewhere."""
    status = backend_of(request).service.status()
    takes = status.alive and status.accepting
    body = {"status": "ready" if takes else "draining" if status.alive else "dead"}
    return JSONResponse({**body, "running": status.running, "queued": status.queued}, 200 if takes else 503)


async def metrics(request: Request) -> Response:
    """Figures in Prometheus' text format."""
    return Response(backend_of(request).metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
