"""`POST /v1/completions`."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from anyorder.errors import ParameterError
from anyorder.scoring import without_holes
from anyorder.server.backend import Ask, Backend
from anyorder.server.body import read_object, validate
from anyorder.server.choice import Choice, collect
from anyorder.server.connection import while_connected
from anyorder.server.endpoint import Record, backend_of, endpoint, respond
from anyorder.server.gap import gap
from anyorder.server.surfaces.ask import terms
from anyorder.server.surfaces.chat import head
from anyorder.server.surfaces.scores import Text, check_mode, score, score_answers
from anyorder.server.usage import usage
from anyorder.server.wire.common import decode_params, renamed, without_neutral
from anyorder.server.wire.completions import PREFIX, CompletionRequest, CompletionVoice, EchoVoice, Prompt
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
    check_mode(backend, wire.score_mode)
    backend.check_choices(len(prompts) * wire.choices, "n" if len(prompts) == 1 else "prompt")
    forced = "mode" in (wire.diffusion or {})
    gaps = [gap(backend, prompt, wire.text_behind, wire.max_tokens, forced=forced) for prompt in prompts]
    encoded = [await backend.encode(one.parts, "prompt") for one in gaps]
    params = decode_params(
        wire, backend.defaults, max_new_tokens=gaps[0].behind, param="max_tokens", stop_ids=gaps[0].stop_ids
    )
    voice = CompletionVoice(
        {**head(PREFIX, backend), "warning": warning},
        logprobs=wire.logprobs,
        echoes=[text_of(backend, prompt) for prompt in prompts] if wire.echo else (),
        mode=wire.score_mode or "commit_pass",
    )
    ask = replace(
        terms(request, wire),
        prompts=encoded,
        params=params.replace(top_logprobs=wire.top),
        n=wire.choices,
        stops=wire.stops,
        with_tokens=wire.logprobs is not None,
    )
    wire.check_stream()
    try:
        if wire.scores_text:
            return await while_connected(request.receive, _scored(record, wire, ask, voice))
        return await respond(record, wire, voice, await backend.submit(ask))
    except ParameterError as error:
        if wire.suffix is not None and error.param == "mode":
            raise ParameterError(f"this model does not infill as asked: {error}", param="suffix") from None
        raise renamed(error, wire.diffusion, "max_tokens") from None


async def _scored(record: Record, wire: CompletionRequest, ask: Ask, voice: CompletionVoice) -> Response:
    """Score the prompts if they are echoed, answer them if that is wanted, score the answers if that is.

    The prompts come first, since what was read of them need not be read again.
    """
    if ask.key is not None and not wire.max_tokens:
        ask.key.reserve(ask.tokens)
    if wire.scores_echo:
        texts = [Text(prompt=number, ids=without_holes(prompt)) for number, prompt in enumerate(ask.prompts)]
        scored = await score(record, ask, texts, wire.score_mode, wire.top)
        tokens, mode = [each.tokens for each in scored], scored[0].mode
        voice = EchoVoice(voice.head, voice.logprobs, voice.echoes, voice.mode, tokens, mode)
    answers = await _answers(record, wire, ask) if wire.max_tokens else []
    return JSONResponse(voice.reply(answers, usage(record.choices)))


async def _answers(record: Record, wire: CompletionRequest, ask: Ask) -> list[Choice]:
    answers = await backend_of(record.request).submit(ask)
    record.choices = [*record.choices, *answers]
    await collect(answers)
    if wire.scores_echo:  # whoever reads prompt and answer in one list counts on a token for every decided slot
        for choice in answers:
            choice.tokens += [stop] if (stop := choice.answer.stop_token) else []
    if wire.score_mode is not None:
        await score_answers(record, ask, answers, wire.score_mode, wire.top)
    return answers


def text_of(backend: Backend, prompt: Prompt) -> str:
    """The prompt as text."""
    return prompt if isinstance(prompt, str) else backend.decode(prompt)
