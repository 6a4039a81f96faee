"""`POST /v1/responses`: a chat under other names."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from anyorder.errors import ParameterError
from anyorder.server.body import read_object, validate
from anyorder.server.endpoint import Record, backend_of, endpoint, streaming, whole
from anyorder.server.errors import ApiError
from anyorder.server.surfaces.chat import Asked, ask_chat
from anyorder.server.wire.chat import READ, ChatRequest
from anyorder.server.wire.common import without_neutral
from anyorder.server.wire.responses import ResponsesRequest, separated
from anyorder.server.wire.responses_input import Conversation, conversation
from anyorder.server.wire.responses_output import new_id
from anyorder.server.wire.responses_voice import ResponsesVoice

NAMES = {
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
    "logprobs": "include",
}
"""Parameters of chats -> their names here."""


@endpoint("responses")
async def responses(request: Request, record: Record) -> Response:
    """Answer an input."""
    data, labels = separated(await read_object(request, backend_of(request).settings))
    wire = validate(ResponsesRequest, data)
    wire.check()
    talk = conversation(wire.input, wire.instructions)
    try:
        chat = validate(
            ChatRequest, without_neutral({**wire.sampling(), "messages": talk.messages, **wire.functions()}, READ)
        )
        asked = await ask_chat(request, chat)
    except (ApiError, ParameterError) as error:
        raise _renamed(error, talk) from None
    voice = ResponsesVoice(
        _echo(backend_of(request).name, wire, labels, asked), asked.top if wire.with_logprobs else None
    )
    if wire.stream:
        return streaming(record, voice, asked.choices)
    return await whole(record, voice.reply, asked.choices)


def _renamed(error: ApiError | ParameterError, talk: Conversation) -> Exception:
    """The error under the name that the parameter has here."""
    own = error.param or ""
    name = talk.renamed(NAMES.get(own, own)).replace(".function.", ".")
    if name == own:
        return error
    if isinstance(error, ParameterError):
        return ParameterError(str(error).replace(f"`{own}`", f"`{name}`"), param=name)
    return ApiError(error.status, error.message.replace(own, name), error.type, name, error.code, error.headers)


def _echo(model: str, wire: ResponsesRequest, labels: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """What the response object says of the request, with what was left out as it was taken."""
    params = asked.params
    return {
        "id": new_id("resp"),
        "created_at": int(time.time()),
        "model": model,
        "instructions": wire.instructions,
        "max_output_tokens": wire.max_output_tokens,
        "max_tool_calls": None,
        "metadata": wire.metadata or {},
        "parallel_tool_calls": wire.parallel_tool_calls is not False,
        "previous_response_id": None,
        "prompt": None,
        "reasoning": {"effort": wire.reasoning.effort if wire.reasoning else None, "summary": None},
        "background": False,
        "service_tier": "default",
        "store": False,
        "temperature": params.temperature,
        "top_p": params.top_p if params.top_p is not None else 1.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": wire.tool_choice or "auto",
        "tools": wire.tools or [],
        "top_logprobs": wire.top_logprobs or 0,
        "truncation": "disabled",
        **dict.fromkeys(("user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")),
        **labels,
    }
