"""`POST /v1/chat/completions`."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from anyorder.params import DecodeParams
from anyorder.server.backend import Backend
from anyorder.server.body import read_object, validate
from anyorder.server.choice import Choice
from anyorder.server.connection import while_connected
from anyorder.server.endpoint import Record, backend_of, endpoint, respond
from anyorder.server.errors import bad_request
from anyorder.server.surfaces.ask import submitted, terms
from anyorder.server.surfaces.prepare import prepare, thinking_budget
from anyorder.server.surfaces.scores import answered_and_scored, check_mode
from anyorder.server.usage import usage
from anyorder.server.wire.chat import PREFIX, READ, ChatRequest, ChatVoice
from anyorder.server.wire.common import decode_params, without_neutral
from anyorder.server.wire.mercury import without_penalties


@dataclass(frozen=True)
class Asked:
    """A chat on its way."""

    choices: list[Choice]
    params: DecodeParams
    top: int
    """Alternatives that are listed per token, where log-probabilities are wanted."""


@endpoint("chat")
async def chat_completions(request: Request, record: Record) -> Response:
    """Answer a chat."""
    backend = backend_of(request)
    data = await read_object(request, backend.settings)
    data, warning = without_penalties(data) if "nextEdit" in data else (data, None)  # Continue's chats with Mercury
    wire = validate(ChatRequest, without_neutral(data, READ))
    mode = wire.score_mode
    check_mode(backend, mode)
    asked = await ask_chat(request, wire)
    heading = {**head(PREFIX, backend), "warning": warning}
    voice = ChatVoice(heading, logprobs=wire.logprobs, top=asked.top, mode=mode or "commit_pass")
    if mode is None:
        return await respond(record, wire, voice, asked.choices)
    await while_connected(
        request.receive, answered_and_scored(record, terms(request, wire), asked.choices, mode, asked.top)
    )
    return JSONResponse(voice.reply(asked.choices, usage(record.choices)))


async def ask_chat(request: Request, wire: ChatRequest) -> Asked:
    """Hand a checked chat to the engine.

    Raises:
        ApiError, ParameterError: something of it cannot be done; `param` is the name in a chat request.
    """
    backend = backend_of(request)
    backend.check_model(wire.model)
    backend.check_choices(wire.choices)
    if not backend.tokenizer.has_chat_template:
        raise bad_request("this model has no chat template; use /v1/completions", code="unsupported_by_model")
    talk = prepare(backend, wire)
    prompt = await backend.encode(talk.messages, "messages", talk.inputs)
    limit, param = wire.limit
    longest = backend.longest_answer(prompt) if limit is None else limit
    if longest < 1:
        raise bad_request(f"`{param}` must be at least 1, got {longest}", param=param)
    params = decode_params(wire, backend.defaults, max_new_tokens=longest, param=param)
    params = params.replace(top_logprobs=wire.top, **talk.preset(params))
    choices = await submitted(
        request,
        wire,
        prompt,
        params,
        param=param,
        with_tokens=wire.logprobs,
        channels=talk.channels,
        thinking=thinking_budget(backend, wire, params),
    )
    return Asked(choices, params, wire.top)


def head(prefix: str, backend: Backend) -> dict[str, Any]:
    """What stands in an answer and in each of its chunks."""
    return {"id": f"{prefix}-{uuid.uuid4().hex}", "created": int(time.time()), "model": backend.name}
