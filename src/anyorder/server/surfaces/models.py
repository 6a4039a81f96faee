"""`GET /v1/models` and Inception's lists per surface."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from anyorder.server.backend import Backend
from anyorder.server.endpoint import Record, backend_of, endpoint
from anyorder.server.gap import fills

SAMPLING = ("temperature", "top_p", "top_k", "seed", "stop", "logit_bias", "max_tokens", "logprobs")


@endpoint("models")
async def models(request: Request, record: Record) -> Response:
    """All models: the one there is."""
    return _listed([entry(backend_of(request))])


@endpoint("models")
async def chat_models(request: Request, record: Record) -> Response:
    """Those that chat."""
    backend = backend_of(request)
    return _listed([entry(backend)] if backend.tokenizer.has_chat_template else [])


@endpoint("models")
async def one_model(request: Request, record: Record) -> Response:
    """The model of this name."""
    backend = backend_of(request)
    backend.check_model(request.path_params["name"])
    return JSONResponse(entry(backend))


def entry(backend: Backend) -> dict[str, Any]:
    """OpenAI's fields and Inception's, with the real limits."""
    context = backend.model.config.max_context
    spec = backend.model.spec
    return {
        "id": backend.name,
        "object": "model",
        "created": backend.created,
        "owned_by": "anyorder",
        "name": backend.name,
        "description": f"{spec.title}, decoded by anyorder",
        "input_modalities": ["text"] if backend.model.images is None else ["text", "image"],
        "output_modalities": ["text"],
        "context_length": context,
        "max_output_length": context - 1,
        "default_output_length": backend.defaults.max_new_tokens,
        "supported_sampling_parameters": list(SAMPLING),
        "pricing": dict.fromkeys(("prompt", "completion", "input_cache_reads", "input_cache_writes"), "0"),
        "openrouter": None,
        "datacenters": [],
        "supported_features": ["tools"] if backend.syntax.tools else [],
        "modes": list(spec.modes),
        "infills": fills(backend),
    }


def _listed(entries: list[dict[str, Any]]) -> Response:
    return JSONResponse({"object": "list", "data": entries})
