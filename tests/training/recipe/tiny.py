"""A random model on bytes, data for it, and the shipped recipes cut down to a few steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.models.tiny_models import LLAMA, write_checkpoint
from tests.training.corpus import SIZE, TEXT_END, chat, write_lines, write_tokenizer

RAW: dict[str, Any] = {**LLAMA, "vocab_size": SIZE, "max_position_embeddings": 128, "eos_token_id": TEXT_END}
RECIPES = ("bd3lm", "diffusiongemma", "draft-lora", "fast-dllm-v2", "llada", "sdar")


def write_model(folder: Path, raw: Mapping[str, Any] = RAW) -> Path:
    """A random Llama with a chat template."""
    write_tokenizer(folder)
    return write_checkpoint(folder, raw)


def write_own(path: Path, count: int = 6) -> Path:
    """Token ids as `anyorder selftext` writes them."""
    return write_lines(path, [{"prompt_ids": [5, 6 + n], "answer_ids": list(range(7, 20 + n))} for n in range(count)])


def write_chats(path: Path, count: int = 6) -> Path:
    return write_lines(path, [chat("hello " * (n + 1), "well, " * (n + 2)) for n in range(count)])


def small(model: Path, data: Path, kind: str = "ids") -> list[str]:
    """Changes that make a shipped recipe run in a moment."""
    changes = {
        "model.source": str(model), "data.0.path": str(data), "data.0.kind": kind, "packing.length": 48,
        "optimisation.epochs": 2, "optimisation.batch_rows": 2, "optimisation.micro_rows": 1, "running.log_every": 1,
    }  # fmt: skip
    return [f"{key}={json.dumps(value)}" for key, value in changes.items()]
