"""The prompts that a conversion is measured with. They are held out: nothing may be trained on them.

The fixed set lies in heldout.json: 40 prompts, 8 each of chat, writing, knowledge, maths and code, with answers
written by hand, so that likelihoods are measured on text of people, too, not only on text of the base itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from anyorder.errors import ModelError
from anyorder.models.loaded import LoadedModel
from anyorder.prompt import Message, encode_prompt


@dataclass(frozen=True, kw_only=True)
class Question:
    """A held-out prompt as text."""

    id: str
    category: str
    """Only for reading; "" for prompts of the user."""
    messages: tuple[Message, ...]
    answer: str | None = None
    """What a person would answer."""


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """A held-out prompt as the model reads it."""

    id: str
    category: str
    text: str
    """The last user turn, for the report."""
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...] = ()
    """() if nobody wrote one."""


def fixed_questions() -> list[Question]:
    """The 40 prompts of heldout.json; the categories take turns."""
    text = resources.files("anyorder.conversion").joinpath("heldout.json").read_text("utf-8")
    return [
        Question(
            id=record["id"],
            category=record["category"],
            messages=({"role": "user", "content": record["prompt"]},),
            answer=record["answer"],
        )
        for record in json.loads(text)["prompts"]
    ]


def encode(model: LoadedModel, questions: Sequence[Question]) -> list[HeldOut]:
    """Questions through the model's chat template, or as bare text where it knows no chats.

    Raises:
        ModelError: the model has no tokenizer.
    """
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise ModelError(
            f"{model.source} has no tokenizer, so that held-out prompts cannot be read; add tokenizer.json"
        )
    return [
        HeldOut(
            id=question.id,
            category=question.category,
            text=question.messages[-1]["content"],
            prompt_ids=tuple(_prompt_ids(model, question, is_chat=tokenizer.has_chat_template)),
            answer_ids=tuple(tokenizer.encode_text(question.answer)) if question.answer else (),
        )
        for question in questions
    ]


def _prompt_ids(model: LoadedModel, question: Question, *, is_chat: bool) -> list[int]:
    prompt = question.messages if is_chat else "\n".join(message["content"] for message in question.messages)
    return [part for part in encode_prompt(model, prompt) if isinstance(part, int)]


def digest(prompts: Sequence[HeldOut]) -> str:
    """Short name of the prompts' content, to tell one set from another."""
    content = json.dumps([(p.id, p.prompt_ids, p.answer_ids) for p in prompts])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
