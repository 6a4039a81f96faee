"""What LiteLLM makes of the server: run by test_litellm.py in the environment that has it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import litellm  # pyright: ignore[reportMissingImports]

HI = [{"role": "user", "content": "hi"}]
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


def at(server: dict[str, str], provider: str, **asked: Any) -> dict[str, Any]:
    """Arguments of a call."""
    model = f"{provider}/{server['model']}"
    return {"model": model, "api_base": server["url"], "api_key": "none", "num_retries": 0, **asked}


def joined(pieces: Any) -> str:
    return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)


def chats(server: dict[str, str], provider: str) -> dict[str, Any]:
    asked = at(server, provider, messages=HI, max_tokens=12)
    whole = litellm.completion(**asked)
    later = asyncio.run(litellm.acompletion(**asked))
    pieces = list(litellm.completion(**asked, stream=True, stream_options={"include_usage": True}))
    return {
        "whole": whole.choices[0].message.content,
        "async": later.choices[0].message.content,
        "streamed": joined(pieces),
        "finish_reason": whole.choices[0].finish_reason,
        "tokens": whole.usage.completion_tokens,
        "streamed_tokens": [piece.usage.completion_tokens for piece in pieces if getattr(piece, "usage", None)],
    }


def tools(server: dict[str, str], provider: str) -> dict[str, Any]:
    asked = at(server, provider, messages=HI, max_tokens=400, tools=[WEATHER])
    answer = litellm.completion(**asked)
    message = answer.choices[0].message
    results = [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in message.tool_calls]
    again = litellm.completion(**{**asked, "messages": [*HI, message, *results]})
    rebuilt = litellm.stream_chunk_builder(list(litellm.completion(**asked, stream=True)))
    return {
        "content": message.content,
        "reasoning": message.reasoning_content,
        "calls": called(message),
        "again": called(again.choices[0].message),
        "streamed": called(rebuilt.choices[0].message),
        "streamed_reasoning": rebuilt.choices[0].message.reasoning_content,
        "finish_reason": answer.choices[0].finish_reason,
    }


def mercury(server: dict[str, str]) -> dict[str, Any]:
    """Parameters that only Inception has."""
    asked = at(server, "inception", messages=HI, max_tokens=12)
    shown = [piece.choices[0].delta.content for piece in litellm.completion(**asked, diffusing=True, stream=True)]
    said = litellm.completion(**asked, realtime=True, reasoning_effort="instant", reasoning_summary=False)
    return {"shown": [text for text in shown if text], "said": said.choices[0].message.content}


def responses(server: dict[str, str]) -> list[str]:
    asked = {**at(server, "openai"), "input": "hi", "max_output_tokens": 16}  # LiteLLM never asks OpenAI for less
    whole = litellm.responses(**asked)
    pieces = litellm.responses(**asked, stream=True)
    streamed = "".join(piece.delta for piece in pieces if piece.type == "response.output_text.delta")
    return [whole.output[0].content[0].text, streamed]


def called(message: Any) -> list[Any]:
    return [[call.function.name, json.loads(call.function.arguments)] for call in message.tool_calls]


def texts(server: dict[str, str], provider: str) -> dict[str, Any]:
    asked = at(server, provider, prompt="hi", max_tokens=12)
    whole = litellm.text_completion(**asked)
    streamed = litellm.text_completion(**asked, stream=True)
    return {
        "whole": whole.choices[0].text,
        "streamed": "".join(piece.choices[0].text or "" for piece in streamed if piece.choices),
    }


def error(**asked: Any) -> list[Any]:
    """The class that LiteLLM raises, and what it says."""
    try:
        litellm.completion(**asked)
    except Exception as told:
        return [type(told).__name__, str(told)]
    return []


def main() -> None:
    servers = json.loads(sys.argv[1])
    letters, caller = servers["letters"], servers["caller"]
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    print()
    print(
        json.dumps(
            {
                "openai": chats(letters, "openai"),
                "inception": chats(letters, "inception"),
                "openai_tools": tools(caller, "openai"),
                "inception_tools": tools(caller, "inception"),
                "mercury": mercury(letters),
                "responses": responses(letters),
                "text": texts(letters, "text-completion-openai"),
                "fim": texts(letters, "text-completion-inception"),
                "unknown_model": error(**{**at(letters, "openai", messages=HI), "model": "openai/gpt-7"}),
                "schema": error(**at(letters, "openai", messages=HI, response_format=schema)),
                "wrong": error(**at(letters, "openai", messages=HI, temperature=-1)),
                "rate": [error(**at(servers["limited"], "openai", messages=HI, max_tokens=1)) for _ in range(2)],
                "key": error(**at(servers["locked"], "openai", messages=HI)),
            }
        )
    )


main()
