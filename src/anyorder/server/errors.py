"""Every failure as the OpenAI error envelope: status, type, param, code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse

from anyorder.errors import (
    AnyorderError,
    ContextError,
    DeadlineExceeded,
    ModelError,
    Overloaded,
    ParameterError,
    Unavailable,
)
from anyorder.server.limiter import LimitExceeded

INVALID = "invalid_request_error"


@dataclass
class ApiError(Exception):
    """A refusal in the words of the wire."""

    status: int
    message: str
    type: str = INVALID
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def as_dict(self) -> dict[str, Any]:
        """The body."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return {"error": error}

    def response(self) -> JSONResponse:
        """The answer."""
        return JSONResponse(self.as_dict(), self.status, headers=dict(self.headers))


def bad_request(message: str, *, param: str | None = None, code: str | None = None) -> ApiError:
    """400: the client's request is wrong."""
    return ApiError(400, message, param=param, code=code)


def unsupported(param: str, message: str) -> ApiError:
    """400: a documented parameter asks for what this server cannot do."""
    return bad_request(message, param=param, code="unsupported_parameter")


def too_much(error: LimitExceeded) -> ApiError:
    """429, with the time after which the request would be let through."""
    if error.retry_after_s is None:
        headers = {"x-should-retry": "false"}
    else:
        wait_ms = math.ceil(error.retry_after_s * 1000)
        headers = {"retry-after": str(math.ceil(wait_ms / 1000)), "retry-after-ms": str(wait_ms)}
    return ApiError(429, error.message, "rate_limit_error", code="rate_limit_exceeded", headers=headers)


def as_api_error(error: Exception) -> ApiError:
    """What a client is told about an exception; whatever is not ours is not shown."""
    match error:
        case ApiError():
            return error
        case LimitExceeded():
            return too_much(error)
        case ContextError():
            return bad_request(str(error), code="context_length_exceeded")
        case ParameterError():
            return bad_request(str(error), param=error.param, code="invalid_value")
        case ModelError():
            return bad_request(str(error), code="unsupported_by_model")
        case Overloaded():
            return ApiError(503, str(error), "overloaded_error", code="overloaded", headers={"retry-after": "1"})
        case Unavailable():
            return ApiError(503, str(error), "server_error", code="unavailable", headers={"retry-after": "5"})
        case DeadlineExceeded():
            return ApiError(504, str(error), "timeout_error", code="timeout", headers={"x-should-retry": "false"})
        case AnyorderError():
            return ApiError(500, str(error), "server_error", code="engine_failed")
        case _:
            message = "the server failed at this request; its log has the cause under the request id"
            return ApiError(500, message, "server_error", code="internal_error", headers={"x-should-retry": "false"})
