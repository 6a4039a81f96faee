"""A model that says what it is told to, behind a chat template that knows of tools and reasoning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from tests.cli.scripted import STOP, ByteTokenizer, scripted_model

from anyorder.models import chat
from anyorder.models.loaded import LoadedModel

PROMPT, CONTEXT = 1500, 2048
TEMPLATE = (
    "{% if tools %}<tools>{{ tools | tojson }}</tools>\n<tool_call>{% endif %}"
    "{% for message in messages %}{{ message.role }}:{{ message.content }}"
    "{% if message.reasoning_content %}[{{ message.reasoning_content }}]{% endif %}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name }}({{ call.function.arguments | tojson }})"
    "{% endfor %}{{ message.name or '' }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% endif %}{{ note or '' }}{% endif %}"
)
PLAIN = "{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}"


class TemplateTokenizer(ByteTokenizer):
    """A token per byte; prompts are filled up with blanks to `PROMPT` tokens, so that answers begin at a known slot."""

    def __init__(self, template: str) -> None:
        self.chat_template: str | None = template
        self.rendered = ""
        """The last chat."""

    def encode_chat(
        self,
        messages: list[dict[str, Any]],
        add_generation_prompt: bool = True,
        inputs: chat.TemplateInputs = chat.NOTHING,
    ) -> list[int]:
        self.rendered = self._render(messages, inputs, prompt=add_generation_prompt)
        ids = list(self.rendered.encode())
        assert len(ids) <= PROMPT
        return [32] * (PROMPT - len(ids)) + ids

    def answer_opening(self, inputs: Any = chat.NOTHING) -> str:
        probe = [{"role": "user", "content": "?"}]
        return self._render(probe, inputs, prompt=True).removeprefix(self._render(probe, inputs, prompt=False))

    def _render(self, messages: list[dict[str, Any]], inputs: chat.TemplateInputs, *, prompt: bool) -> str:
        return chat.render(self.chat_template or "", messages, prompt=prompt, named={}, inputs=inputs)


def speaking(said: str, template: str = TEMPLATE) -> LoadedModel:
    """A model that says this, and then a stop token."""
    model = scripted_model()
    cast(Any, model.network).script = torch.tensor([32] * PROMPT + list(said.encode()) + [STOP] * CONTEXT)
    return replace(
        model,
        config=replace(model.config, max_context=CONTEXT),
        tokenizer=cast(Any, TemplateTokenizer(template)),
        source="speaking",
    )
