"""The real engine on a network whose every token is known in advance."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from anyorder.models.config import ModelConfig
from anyorder.models.families import FAMILIES
from anyorder.models.loaded import LoadedModel

SCRIPT = "Blue light. "
MASK, STOP, VOCABULARY = 256, 257, 258


class ByteTokenizer:
    """One token per byte of UTF-8; a chat is `role:content` lines."""

    has_chat_template = True
    chat_template: str | None = None
    eos = None

    def encode_text(self, text: str, *, bos: bool = False) -> list[int]:
        return list(text.encode())

    def encode_chat(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> list[int]:
        return self.encode_text("".join(f"{message['role']}:{message['content']}\n" for message in messages))

    def answer_opening(self, inputs: Any = None) -> str:
        return ""

    def decode(self, ids: list[int], skip_special: bool = True) -> str:
        return bytes(token for token in ids if token < 256).decode(errors="replace")

    def token(self, token_id: int) -> str | None:
        return f"<{token_id}>"

    def token_id(self, token: str) -> int | None:
        return None


class ScriptedNetwork:
    """Predicts for column c of the canvas the character c of SCRIPT, over and over; the text before does not matter."""

    dtype = torch.float32
    device = torch.device("cpu")

    def __init__(self, config: ModelConfig, script: bytes) -> None:
        self.config = config
        self.script = torch.tensor(list(script))

    def __call__(self, ids: Tensor, positions: Tensor, attend: Any, rows: Tensor, adapted: None = None) -> Tensor:
        return positions[rows]

    def head(self, columns: Tensor) -> Tensor:
        next_token = self.script[(columns + 1) % len(self.script)]
        return 20.0 * torch.nn.functional.one_hot(next_token, VOCABULARY).float()


def scripted_model(script: str = SCRIPT) -> LoadedModel:
    """An autoregressive model (shifted logits) with a chat template."""
    config = ModelConfig(
        hidden_size=8, intermediate_size=8, num_layers=1, num_heads=1, num_kv_heads=1, head_dim=8,
        vocab_size=VOCABULARY, max_context=512, rms_norm_eps=1e-5,
    )  # fmt: skip
    return LoadedModel(
        network=cast(Any, ScriptedNetwork(config, script.encode())),
        config=config,
        spec=FAMILIES["llama"],
        tokenizer=cast(Any, ByteTokenizer()),
        mask_token_id=MASK,
        stop_ids=(STOP,),
        block_length=None,
        source="scripted",
    )


def scripted_text(prompt_length: int, count: int) -> str:
    """What the scripted model writes behind a prompt."""
    return "".join(SCRIPT[column % len(SCRIPT)] for column in range(prompt_length, prompt_length + count))


def chat_length(*contents: str) -> int:
    """Tokens of a chat that begins with a message of the user."""
    roles = ("user", "assistant")
    return sum(len(f"{roles[i % 2]}:{content}\n".encode()) for i, content in enumerate(contents))
