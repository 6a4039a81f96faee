"""Tools for a model whose chat template knows of none: told of in the system message, called in the syntax hermes.

The form (tools as JSON in `<tools>`, calls in `<tool_call>`, results in `<tool_response>`) is that of Hermes, which
SmolLM2's and Qwen's documentation share; the words are ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

TOLD = """You can call functions. These are available, as JSON:
<tools>
{tools}
</tools>
To call some, write a JSON list of their names and arguments and nothing else:
<tool_call>[{{"name": "NAME", "arguments": {{"ARGUMENT": "VALUE"}}}}]</tool_call>
If none of them helps, answer without calling any."""


def with_tools(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with everything about tools as text, so that any template can render them.

    Args:
        messages: as the template would get them.
        tools: OpenAI's objects; without any, only calls and results among the messages become text.
    """
    told: list[dict[str, Any]] = []
    for message in messages:
        plain = _plain(message)
        answers = message["role"] == told[-1]["from"] == "tool" if told else False
        if answers:  # results of one turn are one message: templates want turns to alternate
            told[-1]["content"] += f"\n{plain['content']}"
        else:
            told.append({**plain, "from": message["role"]})
    spoken = [{"role": message["role"], "content": message["content"]} for message in told]
    if not tools:
        return spoken
    text = TOLD.format(tools="\n".join(_json(tool) for tool in tools))
    if spoken and spoken[0]["role"] == "system":
        return [{"role": "system", "content": f"{spoken[0]['content']}\n\n{text}"}, *spoken[1:]]
    return [{"role": "system", "content": text}, *spoken]


def _plain(message: Mapping[str, Any]) -> dict[str, str]:
    role, content = message["role"], message["content"]
    if role == "tool":
        return {"role": "user", "content": f"<tool_response>\n{content}\n</tool_response>"}
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    if not calls:
        return {"role": role, "content": content}
    written = _json([{"name": call["name"], "arguments": call["arguments"]} for call in calls])
    return {"role": role, "content": f"{content}\n<tool_call>{written}</tool_call>".lstrip("\n")}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
