"""`POST /v1/completions`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from anyorder.errors import ParameterError
from anyorder.server.backend import Ask, Backend
from anyorder.server.body import read_object, validate
from anyorder.server.endpoint import Record, backend_of, endpoint, request_id, respond
from anyorder.server.errors import bad_request
from anyorder.server.gap import gap
from anyorder.server.surfaces.chat import head
from anyorder.server.wire.common import decode_params, renamed, without_neutral
from anyorder.server.wire.completions import PREFIX, CompletionRequest, CompletionVoice, Prompt
from anyorder.server.wire.mercury import without_penalties


@endpoint("completions")
async def completions(request: Request, record: Record) -> Response:
    """Continue texts, or fill what is between them and a suffix."""
    data = await read_object(request, backend_of(request).settings)
    data, warning = without_penalties(data) if data.get("suffix") else (data, None)  # Continue's way to ask for FIM
    return await answer(request, record, validate(CompletionRequest, without_neutral(data)), warning)


async def answer(request: Request, record: Record, wire: CompletionRequest, warning: str | None = None) -> Response:
    """The completion of a checked request.

    Args:
        warning: what the client must be told, besides the answer.
    """
    backend = backend_of(request)
    backend.check_model(wire.model)
    prompts = wire.prompts()
    backend.check_choices(len(prompts) * wire.choices, "n" if len(prompts) == 1 else "prompt")
    if wire.max_tokens < 1:
        raise bad_request(f"`max_tokens` must be at least 1, got {wire.max_tokens}", param="max_tokens")
    forced = "mode" in (wire.diffusion or {})
    gaps = [gap(backend, prompt, wire.text_behind, wire.max_tokens, forced=forced) for prompt in prompts]
    encoded = [await backend.encode(one.parts, "prompt") for one in gaps]
    params = decode_params(
        wire, backend.defaults, max_new_tokens=gaps[0].behind, param="max_tokens", stop_ids=gaps[0].stop_ids
    )
    params = params.replace(top_logprobs=wire.top)
    voice = CompletionVoice(
        {**head(PREFIX, backend), "warning": warning},
        logprobs=wire.logprobs,
        echoes=[text_of(backend, prompt) for prompt in prompts] if wire.echo else (),
    )
    ask = Ask(
        prompts=encoded,
        params=params,
        n=wire.choices,
        stops=wire.stops,
        with_tokens=wire.logprobs is not None,
        realtime=wire.realtime,
        tag=request_id(request),
        key=request.scope["state"].get("api_key"),
    )
    wire.check_stream()
    try:
        choices = await backend.submit(ask)
    except ParameterError as error:
        if wire.suffix is not None and error.param == "mode":
            raise ParameterError(f"this model does not infill as asked: {error}", param="suffix") from None
        raise renamed(error, wire.diffusion, "max_tokens") from None
    return await respond(record, wire, voice, choices)


def text_of(backend: Backend, prompt: Prompt) -> str:
    """The prompt as text."""
    return prompt if isinstance(prompt, str) else backend.decode(prompt)
