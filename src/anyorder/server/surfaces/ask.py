"""From a checked request to answers that are on their way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from starlette.requests import Request

from anyorder.canvas import Part
from anyorder.channels.parser import Channels
from anyorder.errors import ParameterError
from anyorder.params import DecodeParams
from anyorder.server.backend import Ask
from anyorder.server.choice import Choice
from anyorder.server.endpoint import backend_of, request_id
from anyorder.server.wire.common import Common, renamed


async def submitted(
    request: Request,
    wire: Common,
    prompt: Sequence[Part],
    params: DecodeParams,
    *,
    param: str,
    stops: Sequence[str] = (),
    with_tokens: bool = False,
    channels: Callable[[], Channels] | None = None,
    thinking: int | None = None,
) -> list[Choice]:
    """Hand one prompt to the engine, `wire.choices` times.

    Args:
        param: the request's own name for the longest answer.
        stops: texts that end the answer, besides the client's.
        with_tokens: keep the tokens of the answers, for log-probabilities.
        channels: makes the reader of an answer's channels.
        thinking: most tokens of reasoning.
    Raises:
        ParameterError: the engine refuses a parameter; under the name that the request has for it.
    """
    wire.check_stream()
    ask = replace(
        terms(request, wire),
        prompts=[prompt],
        params=params,
        n=wire.choices,
        stops=(*stops, *wire.stops),
        with_tokens=with_tokens,
        channels=channels,
        thinking=thinking,
    )
    try:
        return await backend_of(request).submit(ask)
    except ParameterError as error:
        raise renamed(error, wire.diffusion, param) from None


def terms(request: Request, wire: Common) -> Ask:
    """How a request is to be treated, whatever it asks for."""
    key = request.scope["state"].get("api_key")
    return Ask(
        prompts=(), params=DecodeParams(), realtime=wire.realtime, seams=wire.seams, tag=request_id(request), key=key
    )
