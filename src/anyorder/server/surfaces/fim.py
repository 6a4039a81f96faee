"""`POST /v1/fim/completions`: Inception's name for a completion with a suffix."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from anyorder.server.backend import Backend
from anyorder.server.body import read_object, validate
from anyorder.server.endpoint import Record, backend_of, endpoint
from anyorder.server.surfaces.completions import answer
from anyorder.server.wire.common import without_neutral
from anyorder.server.wire.completions import CompletionRequest
from anyorder.server.wire.mercury import FIM_MAX_TOKENS, GAP_MAX_TOKENS, FimRequest, without_penalties


@endpoint("fim")
async def fim_completions(request: Request, record: Record) -> Response:
    """Write what belongs between a prompt and a suffix."""
    backend = backend_of(request)
    data, warning = without_penalties(await read_object(request, backend.settings))
    data = without_neutral(data)
    wire = validate(FimRequest, data)
    length = wire.max_tokens or await _longest(backend, wire)
    return await answer(request, record, validate(CompletionRequest, wire.as_completion(data, length)), warning)


async def _longest(backend: Backend, wire: FimRequest) -> int:
    """Tokens of an answer when the request does not say: the documented number, or what the context leaves."""
    behind = wire.text_behind
    given = await backend.encode([wire.prompt, *([] if behind is None else [behind])], "prompt")
    fills_slots = behind is not None and backend.fim is None
    room = backend.model.config.max_context - len(given)
    return max(min(GAP_MAX_TOKENS if fills_slots else FIM_MAX_TOKENS, room), 1)
