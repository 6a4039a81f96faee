"""`POST /v1/edit/completions` and `POST /v1/apply/completions`: Inception's ways to change code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from anyorder.server.body import read_object, validate
from anyorder.server.endpoint import Record, backend_of, endpoint, respond
from anyorder.server.errors import bad_request
from anyorder.server.surfaces.ask import submitted
from anyorder.server.surfaces.chat import head
from anyorder.server.wire.common import decode_params, without_neutral
from anyorder.server.wire.edit import EditRequest, EditVoice
from anyorder.server.wire.mercury import without_penalties
from anyorder.server.wire.tags import Task, apply_task, edit_task


@dataclass(frozen=True)
class Kind:
    """What distinguishes the two endpoints."""

    name: str
    read: Callable[[str], Task]
    max_tokens: int
    """Documented default."""
    fenced: bool
    """Clients look for the text in a fence."""


EDIT = Kind("edit", edit_task, max_tokens=1024, fenced=True)
APPLY = Kind("apply", apply_task, max_tokens=8192, fenced=False)


@endpoint("edit")
async def edit_completions(request: Request, record: Record) -> Response:
    """Predict the next edit of a region of code."""
    return await _answer(request, record, EDIT)


@endpoint("apply")
async def apply_completions(request: Request, record: Record) -> Response:
    """Merge an update into code."""
    return await _answer(request, record, APPLY)


async def _answer(request: Request, record: Record, kind: Kind) -> Response:
    """The model's answer is begun for it with a fence, and ends at the next one."""
    backend = backend_of(request)
    data, warning = without_penalties(await read_object(request, backend.settings))
    wire = validate(EditRequest, without_neutral(data))
    backend.check_model(wire.model)
    backend.check_choices(wire.choices)
    if not backend.tokenizer.has_chat_template:
        raise bad_request(
            "this model has no chat template, and edits are asked for in a chat", code="unsupported_by_model"
        )
    task = kind.read(wire.messages[0].text)
    asked = await backend.encode([{"role": "user", "content": task.question}], "messages")
    prompt = await backend.encode([*asked, f"{task.fence}\n"], "messages")
    limit, param = wire.limit
    room = max(backend.model.config.max_context - len(prompt), 1)
    params = decode_params(wire, backend.defaults, max_new_tokens=limit or min(kind.max_tokens, room), param=param)
    voice = EditVoice(
        {**head(f"{kind.name}cmpl", backend), "warning": warning},
        f"{kind.name}.completion",
        ends_line=task.ends_line,
        fenced=kind.fenced,
    )
    choices = await submitted(request, wire, prompt, params, param=param, stops=(task.fence,))
    return await respond(record, wire, voice, choices)
