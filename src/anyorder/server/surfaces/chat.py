"""`POST /v1/chat/completions`."""

from __future__ import annotations

import time
import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from anyorder.errors import ParameterError
from anyorder.server.backend import Ask, Backend
from anyorder.server.body import read_object, validate
from anyorder.server.endpoint import Record, backend_of, endpoint, request_id, respond
from anyorder.server.errors import bad_request
from anyorder.server.wire.chat import PREFIX, ChatRequest, ChatVoice
from anyorder.server.wire.common import decode_params, renamed, without_neutral


@endpoint("chat")
async def chat_completions(request: Request, record: Record) -> Response:
    """Answer a chat."""
    backend = backend_of(request)
    wire = validate(ChatRequest, without_neutral(await read_object(request, backend.settings)))
    backend.check_model(wire.model)
    backend.check_choices(wire.choices)
    if not backend.tokenizer.has_chat_template:
        raise bad_request("this model has no chat template; use /v1/completions", code="unsupported_by_model")
    messages = wire.plain_messages()
    prompt = await backend.encode(messages, "messages")
    limit, param = wire.limit
    longest = backend.longest_answer(prompt) if limit is None else limit
    if longest < 1:
        raise bad_request(f"`{param}` must be at least 1, got {longest}", param=param)
    params = decode_params(wire, backend.defaults, max_new_tokens=longest, param=param)
    voice = ChatVoice(head(PREFIX, backend), logprobs=wire.logprobs, top=wire.top(params.temperature))
    ask = Ask(
        prompts=[prompt],
        params=params,
        n=wire.choices,
        stops=wire.stops,
        with_tokens=wire.logprobs,
        realtime=wire.realtime,
        tag=request_id(request),
        key=request.scope["state"].get("api_key"),
    )
    wire.check_stream()
    try:
        choices = await backend.submit(ask)
    except ParameterError as error:
        raise renamed(error, wire.diffusion, param) from None
    return await respond(record, wire, voice, choices)


def head(prefix: str, backend: Backend) -> dict[str, Any]:
    """What stands in an answer and in each of its chunks."""
    return {
        "id": f"{prefix}-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": backend.name,
        "system_fingerprint": None,
    }
