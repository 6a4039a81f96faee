"""What LangChain's ChatOpenAI makes of the server: run by test_langchain.py in the environment that has it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage  # pyright: ignore[reportMissingImports]
from langchain_core.tools import tool  # pyright: ignore[reportMissingImports]
from langchain_openai import ChatOpenAI, OpenAI  # pyright: ignore[reportMissingImports]
from pydantic import BaseModel


class City(BaseModel):
    """A city."""

    name: str


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def of(server: dict[str, str], **settings: Any) -> Any:
    return ChatOpenAI(
        model=server["model"],
        base_url=server["url"],
        api_key="none",
        **{"max_tokens": 12, "max_retries": 0, **settings},
    )


def added(pieces: list[Any]) -> Any:
    whole = pieces[0]
    for piece in pieces[1:]:
        whole += piece
    return whole


async def chats(model: Any) -> dict[str, Any]:
    told = [
        model.invoke("hi"),
        added(list(model.stream("hi"))),
        await model.ainvoke("hi"),
        added([piece async for piece in model.astream("hi")]),
    ]
    return {
        "texts": [message.text for message in told],
        "tokens": [message.usage_metadata and message.usage_metadata["output_tokens"] for message in told],
        "batch": [message.text for message in model.batch(["a", "ab", "abc", "abcd"])],
        "abatch": [message.text for message in await model.abatch(["a", "ab", "abc", "abcd"])],
    }


def tools(model: Any) -> dict[str, Any]:
    bound = model.bind_tools([weather])
    asked = [HumanMessage("Weather?")]
    answer, streamed = bound.invoke(asked), added(list(bound.stream(asked)))
    results = [
        ToolMessage(f"{number} degrees", tool_call_id=call["id"]) for number, call in enumerate(answer.tool_calls)
    ]
    again = bound.invoke([*asked, answer, *results])
    return {
        "calls": [
            [[call["name"], call["args"]] for call in message.tool_calls] for message in (answer, streamed, again)
        ],
        "text": answer.text,
    }


def error(call: Any) -> list[Any]:
    """Names of the classes of what is raised, and the parameter that it is about."""
    try:
        call()
    except Exception as told:
        return [*(kind.__name__ for kind in type(told).__mro__), getattr(told, "param", None)]
    return []


async def main() -> None:
    servers = json.loads(sys.argv[1])
    letters, caller = servers["letters"], servers["caller"]
    completion = OpenAI(model=letters["model"], base_url=letters["url"], api_key="none", max_tokens=12, temperature=0)
    structured = of(letters).with_structured_output
    seen = {
        "chat": await chats(of(letters, stream_usage=True)),
        "responses": await chats(of(letters, use_responses_api=True, stream_usage=True)),
        "tools": tools(of(caller, max_tokens=400)),
        "responses_tools": tools(of(caller, max_tokens=400, use_responses_api=True)),
        "logprobs": of(letters, logprobs=True, top_logprobs=1).invoke("hi").response_metadata["logprobs"],
        "completion": completion.invoke("hi"),
        "schema": error(lambda: structured(City, method="json_schema").invoke("hi")),
        "function": error(lambda: of(caller).with_structured_output(City, method="function_calling").invoke("hi")),
        "unknown_model": error(lambda: of({**letters, "model": "gpt-7"}).invoke("hi")),
    }
    print()
    print(json.dumps(seen))


asyncio.run(main())  # one loop: LangChain keeps its connections for the next call
