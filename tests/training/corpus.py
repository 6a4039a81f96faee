"""A byte-level tokenizer with a chat template, and files of every kind of data, for the tests of training data."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.models.tiny_models import BYTES, write_bpe

from anyorder.models.tokenizer import Tokenizer, read_tokenizer
from anyorder.training.data.encode import Vocabulary

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHORTENING = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if loop.last and m['role'] == 'assistant' %}<think>{% endif %}{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Shows the last answer in another way than earlier ones, as Qwen3 does."""
START, END, TEXT_END = BYTES, BYTES + 1, BYTES + 2
SIZE = BYTES + 4


def write_tokenizer(folder: Path, template: str | None = CHATML) -> None:
    """Tokenizer files whose added tokens are <|im_start|>, <|im_end|>, <|endoftext|>, <think>."""
    names = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>")
    write_bpe(folder, [{"content": name, "special": True} for name in names], template=template)


def tokenizer(folder: Path, template: str | None = CHATML) -> Tokenizer:
    write_tokenizer(folder, template)
    found = read_tokenizer(folder)
    assert found is not None
    return found


def vocabulary(folder: Path, template: str | None = CHATML) -> Vocabulary:
    return Vocabulary(tokenizer(folder, template), SIZE, TEXT_END)


def write_lines(path: Path, records: Iterable[Any]) -> Path:
    """A JSONL file; a text among the records is written as it is."""
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def chat(*contents: str) -> dict[str, Any]:
    """A conversation that begins with the user."""
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(contents)]}


class FakeStream:
    """What `datasets.load_dataset(..., streaming=True)` gives, as far as it is used."""

    def __init__(self, records: list[dict[str, Any]], fails_at: int | None = None) -> None:
        self.records = records
        self.fails_at = fails_at

    def skip(self, count: int) -> FakeStream:
        return FakeStream(self.records[count:])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, record in enumerate(self.records):
            if number == self.fails_at:
                raise RuntimeError("gzip is damaged")
            yield record


def fake_hub(monkeypatch: pytest.MonkeyPatch, records: list[dict[str, Any]]) -> dict[str, Any]:
    """A `datasets` module whose one data set is `["stream"]` of the result; what it was asked for is `["asked"]`."""
    held: dict[str, Any] = {"stream": FakeStream(records)}

    def load_dataset(*args: Any, **kwargs: Any) -> FakeStream:
        held["asked"] = (args, kwargs)
        return held["stream"]

    module = ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return held
