"""Tools that a chat may call, and what is asked of the calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from anyorder.server.errors import bad_request, unsupported
from anyorder.server.wire.common import Limited, Wire

MAX_TOOLS = 128
_GUARANTEE = "structure is not guaranteed yet, and not pretended"


class Function(Wire):
    """A function of the client."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    def shown(self) -> dict[str, Any]:
        """What the model is told of it."""
        told = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {name: value for name, value in told.items() if value is not None}


class Tool(Wire):
    """A tool; there are functions only."""

    type: Literal["function"]
    function: Function


class WithTools(Limited):
    """A request that may name tools."""

    tools: Annotated[list[Tool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None

    def callable_tools(self) -> list[Tool]:
        """The tools that the answer may call.

        Raises:
            ApiError: calls are asked for in a way that cannot be guaranteed.
        """
        tools = self.tools or []
        for number, tool in enumerate(tools):
            if tool.function.strict:
                param = f"tools[{number}].function.strict"
                raise unsupported(param, f"`{param}`: {_GUARANTEE}; leave it out or use false")
        names = [tool.function.name for tool in tools]
        if twice := next((number for number, name in enumerate(names) if name in names[:number]), None):
            param = f"tools[{twice}].function.name"
            raise bad_request(f"`{param}`: {names[twice]!r} is there twice", param=param)
        if self.tool_choice not in (None, "auto", "none"):
            message = (
                f"`tool_choice`: that a tool is called cannot be guaranteed yet, got {str(self.tool_choice)[:80]}; "
            )
            raise unsupported("tool_choice", message + "use 'auto' or 'none'")
        return [] if self.tool_choice == "none" else tools
