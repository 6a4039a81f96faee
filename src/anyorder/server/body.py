"""From the bytes of a request to checked data, within limits."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, NoReturn, TypeVar

from anyio import to_thread
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect, Request

from anyorder.params import did_you_mean
from anyorder.server.errors import ApiError, bad_request
from anyorder.server.settings import ServerSettings

M = TypeVar("M", bound=BaseModel)
_MAX_DEPTH = 64
_THREAD_BYTES = 64 << 10
"""Longer bodies are read in a thread, so that nobody's stream waits for them."""
_MAX_WHOLE = 2**63
_UNION_MEMBERS = ("str", "bool", "int", "float", "ImageUrl")


async def read_object(request: Request, settings: ServerSettings) -> dict[str, Any]:
    """The JSON object of a request's body.

    Raises:
        ApiError: it is no JSON object, too large, too slow, or not sent as JSON.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, f"send the body as application/json, not {kind[:80] or 'nothing'!r}", code="not_json")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise ApiError(415, "send the body without content-encoding", code="encoded_body")
    try:
        async with asyncio.timeout(settings.body_timeout_s):
            raw = await _read(request, settings.max_body_bytes)
    except TimeoutError:
        message = f"the body did not come within {settings.body_timeout_s:g} s"
        raise ApiError(408, message, "timeout_error", code="body_timeout", headers={"connection": "close"}) from None
    return await to_thread.run_sync(parse_object, raw) if len(raw) > _THREAD_BYTES else parse_object(raw)


async def _read(request: Request, limit: int) -> bytes:
    too_long = ApiError(
        413,
        f"the body is longer than {limit} bytes, the most this server takes",
        code="body_too_large",
        headers={"connection": "close"},
    )
    if int(request.headers.get("content-length", "0")) > limit:
        raise too_long
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise too_long
    except ClientDisconnect:
        raise bad_request("the connection ended before the body did") from None
    return bytes(body)


def parse_object(raw: bytes) -> dict[str, Any]:
    """A JSON object, strictly: UTF-8, no nan, no lone surrogates, no repeated keys, not too deep.

    Raises:
        ApiError: it is anything else.
    """
    try:
        data = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number)
        _check_tree(data, _MAX_DEPTH)
    except RecursionError:
        raise bad_request(f"the body is nested deeper than {_MAX_DEPTH} levels", code="invalid_json") from None
    except ValueError as error:
        raise bad_request(f"the body is no JSON: {str(error)[:200]}", code="invalid_json") from None
    if not isinstance(data, dict):
        raise bad_request(f"the body must be a JSON object, got {_kind(data)}", code="invalid_json")
    return data


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of two equal keys another reader might take the other one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _check_tree(value: object, depth: int) -> None:
    if depth == 0:
        raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels")
    match value:
        case str():
            value.encode("utf-8")  # a lone surrogate is no text
        case float() if not math.isfinite(value):
            raise ValueError("a number is too large")
        case int() if abs(value) > _MAX_WHOLE:
            raise ValueError("a whole number does not fit 64 bits")
        case dict():
            for name, part in value.items():
                _check_tree(name, depth)
                _check_tree(part, depth - 1)
        case list():
            for part in value:
                _check_tree(part, depth - 1)
        case _:
            pass


def _kind(value: object) -> str:
    names = {"NoneType": "null", "list": "a list", "str": "a string", "bool": "true or false"}
    return names.get(type(value).__name__, "a number")


def validate(model: type[M], data: dict[str, Any]) -> M:
    """The data as a wire model.

    Raises:
        ApiError: a field is missing, unknown or of the wrong kind; `param` is the first one's path.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = _most_telling(error)
        path = _path(first["loc"])
        if first["type"] == "extra_forbidden":
            name, known = str(first["loc"][-1])[:80], list(model.model_fields)
            hint = did_you_mean(name, known) if len(first["loc"]) == 1 else ""
            raise bad_request(f"unknown parameter {name!r}{hint}", param=path, code="unknown_parameter") from None
        missing = first["type"] == "missing"
        message = f"`{path}` is missing" if missing else f"`{path}`: {first['msg'].removeprefix('Value error, ')}"
        raise bad_request(message, param=path, code="missing_parameter" if missing else "invalid_type") from None


def _most_telling(error: ValidationError) -> ErrorDetails:
    """The first fault; of a value that may be one of several things, that of the one it comes closest to."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    same = [fault for fault in faults if fault["loc"][:1] == faults[0]["loc"][:1]]
    return max(same, key=lambda fault: len(fault["loc"]))


def _path(loc: tuple[str | int, ...]) -> str:
    """`("messages", 0, "content")` -> `messages[0].content`; names of union members are not part of it."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not text:
            text = part
        elif part.isidentifier() and part not in _UNION_MEMBERS:
            text += f".{part}"
    return text[:200]
