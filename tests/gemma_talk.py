"""The tiny DiffusionGemma with a tokenizer and a chat template that have the facts of the published ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tokenizers import AddedToken, decoders
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE

from anyorder.models.load import load
from anyorder.models.loaded import LoadedModel
from anyorder.models.tokenizer import Tokenizer
from anyorder.models.tokenizer_files import TokenizerFiles

LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789 \n<>|/.?:_{}"'
CONTROL = (
    "<bos>", "<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|think|>", "<|tool>", "<tool|>", "<|tool_call>",
    "<tool_call|>", '<|"|>',
)  # fmt: skip
TEMPLATE = (
    "{% macro spoken(text) %}{% for part in text.split('<channel|>') %}"
    "{{ part.split('<|channel>')[0] }}{% endfor %}{% endmacro %}"
    "{{ bos_token }}{% set system = messages[0].role == 'system' %}"
    "{% if system or tools or enable_thinking %}{{ '<|turn>system\n' }}"
    "{% if enable_thinking %}{{ '<|think|>\n' }}{% endif %}"
    "{% if system %}{{ messages[0].content | trim }}{% endif %}"
    "{% for tool in tools or [] %}{{ '<|tool>declaration:' + tool.function.name + '{}<tool|>' }}{% endfor %}"
    "{{ '<turn|>\n' }}{% endif %}"
    "{% for message in messages if message.role != 'system' %}"
    "{{ '<|turn>' + ('model' if message.role == 'assistant' else message.role) + '\n' }}"
    "{% for call in message.tool_calls or [] %}{{ '<|tool_call>call:' + call.function.name + '{}<tool_call|>' }}"
    "{% endfor %}{% if message.role == 'assistant' %}{{ spoken(message.content) | trim }}"
    "{% else %}{{ message.content | trim }}{% endif %}{{ '<turn|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn>model\n' }}"
    "{% if not enable_thinking | default(false) %}{{ '<|channel>thought\n<channel|>' }}{% endif %}{% endif %}"
)
"""Written anew, with the facts of the published one (of 2026): thoughts of earlier turns are left out, `<|think|>` and
a newline open the first system turn, tools are declared at its end, calls stand before the words of their turn, and
with thinking off, or not spoken of, the answer begins behind an empty channel. Schemas, arguments and results of tools
are left out."""


def backend() -> Backend:
    """A token per letter, and the control tokens."""
    made = Backend(BPE({letter: number for number, letter in enumerate(LETTERS)}, []))
    made.decoder = decoders.Fuse()
    made.add_special_tokens([AddedToken(token, special=True) for token in CONTROL])
    return made


def gemma_tokenizer(template: str = TEMPLATE) -> Tokenizer:
    named = {"bos_token": "<bos>", "eos_token": "<turn|>"}
    return Tokenizer(TokenizerFiles(backend=backend(), named=named, chat_template=template))


def talking_gemma(template: str = TEMPLATE) -> LoadedModel:
    """Random weights of the published shape; its answers are given with `forced`."""
    model = load(Path(__file__).parent / "reference" / "diffusion_gemma", verify=False)
    tokenizer = gemma_tokenizer(template)
    stop = tokenizer.token_id("<turn|>")
    assert stop is not None
    return replace(model, tokenizer=tokenizer, stop_ids=(stop,), source="tiny gemma")


def forced(model: LoadedModel, said: str) -> dict[int, int]:
    """Slots of an answer that says this and stops; strings of control tokens are control tokens."""
    assert isinstance(model.tokenizer, Tokenizer)
    return dict(enumerate([*backend().encode(said, add_special_tokens=False).ids, model.stop_ids[0]]))
